"""Reads the configuration file: Java properties in, frozen typed settings out."""
