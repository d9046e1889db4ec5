"""One run of a flow: what it copies from where, its heartbeats and dead letters, its record."""
