"""Other services: saying that this one is there, and asking them."""
