"""Source offsets with their edits and repair; offsets of consumer groups, translated and judged; checkpoints."""
