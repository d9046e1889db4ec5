"""Remote topics: plan (read both clusters), apply, refresh."""
