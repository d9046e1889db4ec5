"""One transactional id, as its coordinator knows it."""

from __future__ import annotations

from dataclasses import dataclass, field

from srm_common.testing.fake_cluster.groups import Committed

EMPTY, ONGOING, COMMITTED, ABORTED = "Empty", "Ongoing", "CompleteCommit", "CompleteAbort"
#: Final state -> the state while the markers are still to be written.
PREPARED = {COMMITTED: "PrepareCommit", ABORTED: "PrepareAbort"}

Partition = tuple[str, int]


@dataclass
class Transaction:
    """What the coordinator knows of a transactional id. ``last_epoch`` is the one before, with which a producer may
    repeat itself; -1 for none."""

    name: str
    producer_id: int
    epoch: int
    timeout_ms: int
    last_epoch: int = -1
    last_producer_id: int = -1
    state: str = EMPTY
    partitions: set[Partition] = field(default_factory=set)
    #: Offsets to be committed with it, by group.
    offsets: dict[str, dict[Partition, Committed]] = field(default_factory=dict)
    started_ms: int = -1

    @property
    def ending(self) -> bool:
        """Whether its markers are being written."""
        return self.state in PREPARED.values()

    def was_ended(self, producer_id: int, epoch: int) -> bool:
        """Whether an end under this epoch is being carried out, or was, so that the request repeats itself. A
        coordinator that has moved knows it by the epoch after (``retryOnEpochBump``)."""
        repeated = (producer_id, epoch) in (
            (self.last_producer_id, self.last_epoch),
            (self.producer_id, self.epoch - 1),
        )
        return repeated and (self.ending or self.state in (COMMITTED, ABORTED))
