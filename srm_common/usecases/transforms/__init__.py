"""Transforms tried before they run: the newest records of a topic, before and after them, as text."""
