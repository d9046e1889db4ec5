"""Topics, settings and ACLs of a cluster."""
