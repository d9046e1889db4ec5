"""How many bytes to ask each source broker for at a time: no more than its link carries in some seconds."""

from __future__ import annotations

#: An answer that took longer than the first halves what is asked for next; one within the second doubles it.
_SLOW_SECONDS, _QUICK_SECONDS = 10.0, 2.0
_SMALLEST_BYTES = 64 << 10


class FetchSizes:
    """What the answers of each of a cluster's brokers have shown. A slot ends its pass, and hears of new end offsets,
    only between two answers. It is kept from pass to pass: over a slow link a pass has one answer of each broker."""

    def __init__(self) -> None:
        #: Of brokers that get less than their share.
        self._sizes: dict[int, int] = {}

    def of(self, node: int, share: int) -> int:
        """Bytes to ask a broker for, whose share of the buffers has room for ``share``."""
        return min(self._sizes.get(node, share), share)

    def answered(self, node: int, share: int, seconds: float) -> None:
        """A broker has answered so long after it was asked."""
        size = self.of(node, share)
        if seconds > _SLOW_SECONDS:
            self._sizes[node] = min(max(size // 2, _SMALLEST_BYTES), share)
        elif seconds < _QUICK_SECONDS:
            self._sizes[node] = min(2 * size, share)
