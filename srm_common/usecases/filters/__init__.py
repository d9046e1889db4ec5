"""Filters that are edited while flows run."""
