"""What the driver does: ownership, passes, results."""
