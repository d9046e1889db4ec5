"""Edits of filters while flows run."""
