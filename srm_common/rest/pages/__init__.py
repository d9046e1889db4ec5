"""What browsers load: the Replications page and the API's description."""
