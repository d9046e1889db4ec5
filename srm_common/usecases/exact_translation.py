"""Exact translations: by the offset map, and where that has only a range, by looking into the logs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from srm_common.domain import names
from srm_common.domain.flow import FlowSettings
from srm_common.domain.translation import Translation
from srm_common.kafka.compacted import StateReader
from srm_common.kafka.segment_log import SegmentLog

Position = tuple[str, int, int]
"""Upstream topic, partition, next upstream offset to read."""


class ExactTranslation:
    """Translates positions of one flow's source into offsets on its target. A context manager.

    Args:
        flow: works while its source is down; ``away`` then says so, and what only the source can tell is a floor.
        log: the flow's map, when the caller has it open already; else it is read from the target.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers. The source's errors are in ``away``.
    """

    def __init__(self, flow: FlowSettings, log: SegmentLog | None = None) -> None:
        self._flow = flow
        self._log = log
        self._stack = ExitStack()
        #: Cluster alias -> one sentence why it could not be looked into.
        self.away: dict[str, str] = {}

    def __enter__(self) -> Self:
        if self._log is None:
            reader = self._stack.enter_context(StateReader(self._flow.target))
            topic = names.segments_topic(self._flow.name.source)
            self._log = SegmentLog(reader, topic, reader.partitions(topic))
            self._log.read_news({})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def translate(self, positions: Iterable[Position]) -> dict[Position, Translation]:
        """The translation of each position.

        Give all at once: positions in the same stretch of a log share one read.
        """
        assert self._log is not None, "use it as a context manager"
        return {position: self._log.translate(*position) for position in positions}
