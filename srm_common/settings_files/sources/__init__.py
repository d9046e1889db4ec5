"""Sources of settings: properties files, config providers, environment variables."""
