"""Schemas at the source and on the target: plan, apply."""
