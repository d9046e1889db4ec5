"""The newest committed records of topics at the source, as far as limits of time and bytes allow."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import ConfigError, UnreachableCluster, installing
from srm_common.kafka.client.closing import Closing
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.wire.batches.batch import SourceBatch

if TYPE_CHECKING:
    import pyarrow as pa

#: Offsets of a partition that are read first; then twice as many each time, towards the start of the log.
_FIRST_OFFSETS = 64
#: A request just before the deadline still gets this long for its response.
_LEAST_SECONDS = 0.5
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What reading and comparing records may take: ``seconds`` from the beginning, and ``read_bytes`` of records with
    their compression undone."""

    seconds: float = 60.0
    read_bytes: int = 256 * _MIB


class Allowance:
    """What is left of :class:`ReadLimits`.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, limits: ReadLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._until = clock() + limits.seconds
        self._bytes = 0
        #: Which limit was reached, as a sentence without its end; empty before.
        self.ended = ""

    @property
    def seconds(self) -> float:
        """For the next request."""
        return max(_LEAST_SECONDS, self._until - self._clock())

    def spend(self, size: int) -> None:
        """``size``: bytes of records that were read."""
        self._bytes += size

    def over(self) -> bool:
        """Whether a limit is reached; ``ended`` says which."""
        if self.ended:
            return True
        if self._clock() >= self._until:
            self.ended = f"the limit of {self._limits.seconds:g} s was reached"
        elif self._bytes >= self._limits.read_bytes:
            self.ended = f"the limit of {self._limits.read_bytes / _MIB:g} MiB of records was reached"
        return bool(self.ended)


class _LimitReached(Exception):
    """Ends a read."""


class NewestRecords(Closing):
    """Reads them over connections of its own; a context manager.

    Raises :class:`ConfigError` where what decodes records is not installed.
    """

    def __init__(self, clusters: FlowClusters, allowance: Allowance) -> None:
        try:
            import pyarrow  # noqa: F401

            from srm_common.wire.reencoding.columns import decode
        except ImportError as error:
            raise ConfigError(f"this needs {error.name}: {installing('transforms')} here") from error
        self._decode = decode
        self._clusters = clusters
        self._allowance = allowance
        self._link = clusters.source.link("transform")

    def close(self) -> None:
        self._link.close()

    @property
    def _seconds(self) -> float:
        return min(self._clusters.flow.request_seconds, self._allowance.seconds)

    def bounds(self, topics: Sequence[str]) -> dict[str, dict[int, range]]:
        """Offsets of committed records by topic and partition; empty partitions are left out.

        Raises:
            UnreachableCluster, AccessDenied, ClusterError: as the source answers, for the first partition that it does
                not tell of.
        """
        facts = self._clusters.source.admin.describe_topics(topics)
        places = [TopicPartition(topic, number) for topic in facts for number in range(facts[topic].partitions)]
        found: dict[str, dict[int, range]] = {topic: {} for topic in topics}
        if not places:
            return found
        starts, faults = self._link.start_offsets(places, timeout_seconds=self._seconds)
        ends, more = self._link.end_offsets(places, timeout_seconds=self._seconds)
        for place in places:
            if place not in starts or place not in ends:
                raise UnreachableCluster((faults | more)[place])
            if ends[place] > starts[place]:
                found[place.topic][place.partition] = range(starts[place], ends[place])
        return found

    def read(self, topic: str, bounds: Mapping[int, range], sample: int) -> dict[int, pa.RecordBatch]:
        """The last records of each partition in log order: ``sample`` of them, or a few less where markers and gaps lie
        between; fewer where a limit ends it, which are those from the end of the log on that came until then.

        Args:
            bounds: as :meth:`bounds` gives them.

        Raises:
            UnreachableCluster: the source does not answer, and nothing has been read.
            AccessDenied, ClusterError, CorruptBatch: as for any reader.
        """
        import pyarrow as pa

        # Transactions take an offset for each marker.
        floors = {partition: max(span.start, span.stop - 2 * sample) for partition, span in bounds.items()}
        down_to = {partition: span.stop for partition, span in bounds.items()}
        found: dict[int, list[pa.RecordBatch]] = {partition: [] for partition in bounds}
        size = _FIRST_OFFSETS
        while down_to and not self._allowance.over():
            starts = {partition: max(floors[partition], end - size) for partition, end in down_to.items()}
            pieces: dict[int, list[pa.RecordBatch]] = {}
            try:
                self._piece(topic, starts, down_to, pieces)
            except UnreachableCluster:
                # Its patience may have been no more than what was left of the time.
                if not self._allowance.over() or not any(found.values()):
                    raise
            for partition, parts in pieces.items():
                found[partition] = [*parts, *found[partition]]
            rows = {partition: sum(part.num_rows for part in found[partition]) for partition in starts}
            down_to = {
                partition: start
                for partition, start in starts.items()
                if start > floors[partition] and rows[partition] < sample
            }
            size *= 2
        return {
            partition: pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
            for partition, parts in found.items()
            if any(part.num_rows for part in parts)
        }

    def _piece(
        self,
        topic: str,
        starts: Mapping[int, int],
        ends: Mapping[int, int],
        pieces: dict[int, list[pa.RecordBatch]],
    ) -> None:
        """One read of some offsets of each partition, into ``pieces``."""
        import pyarrow as pa

        from srm_common.kafka.log.committed_log import read_committed

        def take(partition: int, batch: SourceBatch, first: int) -> None:
            if self._allowance.over():
                raise _LimitReached
            if batch.header.base_offset >= ends[partition]:
                return
            records = self._decode([batch])
            offsets = records.column("offset").to_numpy()
            within = (offsets >= first) & (offsets < ends[partition])
            records = records.filter(pa.array(within))
            self._allowance.spend(records.nbytes)
            pieces.setdefault(partition, []).append(records)

        async def work() -> None:
            await self._link.open([topic], self._seconds)
            await read_committed(self._link, topic, ends, take, patience_seconds=self._seconds, starts=starts)

        try:
            self._link.run(work)
        except _LimitReached:
            return
