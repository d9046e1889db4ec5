"""Every metric, its samples and sums."""
