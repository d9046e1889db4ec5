"""Consumer groups on both sides of a flow."""
