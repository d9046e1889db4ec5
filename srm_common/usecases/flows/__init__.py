"""What a flow is at this moment: its two clusters, what is recorded on them, which topics it copies."""
