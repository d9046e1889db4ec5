"""Where settings are read: properties files, config providers, variables of the environment."""
