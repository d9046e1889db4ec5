"""Flows taken over from MirrorMaker 2 and handed back to it."""
