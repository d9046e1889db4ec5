"""State topics, and what is written to them."""
