"""State topics and their records, and the clients that a task keeps for each cluster."""
