"""The current state of a flow: its two clusters, the records on them, the topics it copies."""
