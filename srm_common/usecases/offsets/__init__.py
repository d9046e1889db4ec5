"""Source offsets with their edits and repair, translated offsets, checkpoints."""
