"""What a run copies, from which offsets, in which pieces, and its results."""
