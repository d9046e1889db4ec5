"""Which consumer groups there are, at the source and on the target, and where they stand there."""
