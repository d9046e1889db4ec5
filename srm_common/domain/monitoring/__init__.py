"""What is measured of flows, and how reports are built."""
