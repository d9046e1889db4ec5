"""Topic and group filters."""
