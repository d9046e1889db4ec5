"""Passes and verifications as Spark jobs."""
