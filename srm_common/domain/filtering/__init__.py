"""Which topics and groups a flow takes in, and edits of that."""
