"""Topics, configs and ACLs of a cluster."""
