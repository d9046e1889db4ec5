"""Connections of kafka-python: dialing, bootstrap, transports for large frames, and the event loop under them."""
