"""Consumer groups at the source and on the target, and their positions there."""
