"""What can go wrong in a measurement; the text is one sentence for a person."""

from __future__ import annotations


class BenchError(Exception):
    """The measurement cannot be believed or did not come to an end."""
