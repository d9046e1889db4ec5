"""Consumer groups of a cluster."""
