"""Requests and responses: frames, receive buffers, error codes, API versions."""
