"""Schemas of registries: which of them the other side needs, under which names and in which order."""
