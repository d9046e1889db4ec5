"""What is wrong with a flow's transforms."""

from __future__ import annotations


class TransformFault(ValueError):
    """``key`` (without a level's prefix) cannot be carried out; the text is what follows its name in a sentence."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key
