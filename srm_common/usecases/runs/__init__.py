"""One run of a flow."""
