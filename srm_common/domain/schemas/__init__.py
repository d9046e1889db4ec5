"""Schemas of registries: which of them the target needs, under which names and in which order."""
