"""Middleware in front of every route."""
