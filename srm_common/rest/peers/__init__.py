"""Other services: advertises this one, and queries the others."""
