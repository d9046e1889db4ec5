"""What lies in a partition's log."""
