"""Moves of groups and flows: failover, failback, take-over, hand-back."""
