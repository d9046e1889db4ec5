"""Reads of a partition's log."""
