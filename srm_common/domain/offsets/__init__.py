"""The offset map, the translation of consumer group offsets, and edits of source offsets."""
