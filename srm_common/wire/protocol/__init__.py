"""Fetch and Produce, the two requests that carry batches, and the fields of flexible versions (KIP-482)."""
