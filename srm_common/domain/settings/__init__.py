"""What a setting is, every key of the configuration file, and which of several values counts."""
