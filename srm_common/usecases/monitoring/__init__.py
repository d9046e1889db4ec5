"""Status, lag, and the report of a run."""
