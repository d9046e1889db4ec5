"""Remote topics: plan, apply, refresh."""
