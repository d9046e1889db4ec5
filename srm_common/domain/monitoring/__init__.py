"""What is measured of flows, how it is put together, and what it says about their health. Standard library only."""
