"""The offset map, translations by it, and the offsets of consumer groups."""
