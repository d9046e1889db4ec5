"""What browsers load: the Replications page and the API documentation."""
