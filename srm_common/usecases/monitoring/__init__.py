"""Status, lag, and the report of a run; the metrics topic, and its way into the store."""
