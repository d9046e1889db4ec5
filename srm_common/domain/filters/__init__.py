"""Filters of topics and groups."""
