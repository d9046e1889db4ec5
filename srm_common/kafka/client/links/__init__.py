"""Links: one cluster as the rest of the project sees it, its pool of connections, its admin requests by both
libraries."""
