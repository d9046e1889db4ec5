"""Under which leaders the offsets of one partition were written, as far as its batches were read.

Each record batch carries the epoch of the leader that took it, and epochs only grow along a log. So the epoch of the
last offset read identifies the log it was read from: a log that was cut and has grown again has other epochs there
(KIP-101, KIP-320).
"""

from __future__ import annotations

UNKNOWN_EPOCH = -1


class LeaderEpochs:
    """Spans of offsets with one epoch each, in the order of the log.

    Args:
        offset: the next offset to read.
        epoch: the epoch of the offset before it, if it is known.
    """

    def __init__(self, offset: int = 0, epoch: int = UNKNOWN_EPOCH) -> None:
        #: First offset, offset after the last, epoch.
        self._spans: list[tuple[int, int, int]] = [(offset - 1, offset, epoch)] if epoch >= 0 else []

    def add(self, first: int, after: int, epoch: int) -> None:
        """A batch with the offsets from ``first`` up to, without it, ``after`` was read. What was read before from
        ``first`` on is forgotten; batches of magic 0 and 1 have no epoch."""
        spans = self._spans
        if spans:
            start, end, newest = spans[-1]
            if newest == epoch and start <= first:
                # Epochs only grow: what compaction took between two batches of an epoch was of that epoch, too.
                if after > end:
                    spans[-1] = (start, after, epoch)
                return
            while spans and spans[-1][1] > first:
                start, _, newest = spans.pop()
                if start < first:
                    spans.append((start, first, newest))
        if epoch >= 0:
            spans.append((first, after, epoch))

    def at(self, offset: int) -> int:
        """The epoch of an offset, -1 where it is not known."""
        for start, end, epoch in reversed(self._spans):
            if start <= offset < end:
                return epoch
        return UNKNOWN_EPOCH

    def forget_before(self, offset: int) -> None:
        """Nothing before ``offset`` will be asked for any more."""
        if len(self._spans) > 1:
            self._spans = [span for span in self._spans if span[1] > offset]

    def clear(self) -> None:
        """Know of no epoch."""
        self._spans = []
