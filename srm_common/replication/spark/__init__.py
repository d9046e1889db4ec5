"""Passes as Spark jobs."""
