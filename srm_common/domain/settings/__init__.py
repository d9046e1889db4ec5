"""Every key of the configuration file, and which of several values takes effect."""
