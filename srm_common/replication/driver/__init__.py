"""What the driver does: ownership, passes, the run's folder, results."""
