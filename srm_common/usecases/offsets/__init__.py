"""Source offsets, translated offsets, checkpoints."""
