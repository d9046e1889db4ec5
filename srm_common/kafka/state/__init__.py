"""State topics and their records."""
