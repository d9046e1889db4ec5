"""Failover, failback, switch of direction."""
