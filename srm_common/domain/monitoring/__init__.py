"""What is measured of flows, and how reports are put together."""
