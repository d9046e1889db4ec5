"""Patterns of names, as MirrorMaker 2 reads them."""
