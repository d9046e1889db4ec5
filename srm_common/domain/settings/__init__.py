"""Every key of the configuration file, which of several values takes effect, and what other tools' keys do."""
