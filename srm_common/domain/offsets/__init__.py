"""The offset map, and the translation of consumer group offsets."""
