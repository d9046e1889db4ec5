"""Every metric: its name, samples and sums."""
