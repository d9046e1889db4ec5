"""What goes wrong in the demo, on purpose, so that the Replications page has something to show.

west->east      loses records: they are deleted at west before they were copied, as with too short a retention
east->backup    fails: nothing is listening at the address of cluster backup
west->backup    is paused, since its key `enabled` says false
"""

from __future__ import annotations

import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException, TopicPartition

from demo.lag import LagReader
from demo.topics import RETURNS
from srm_common.domain.flow import FlowSettings
from srm_common.errors import SrmError
from srm_common.testing import LocalKafka

#: For the properties file; ``backup`` is an address where nothing is listening.
KEYS = """
# Flows that need attention; see demo/trouble.py.
backup.bootstrap.servers = {backup}
west->east.enabled = true
west->east.topics = returns
west->east.schedule.interval.seconds = {seldom}
east->backup.enabled = true
east->backup.admin.timeout.ms = 5000
east->backup.schedule.interval.seconds = {seldom}
west->backup.enabled = false
task.retries = 0

# Groups resume where they stopped, whenever they move.
sync.group.offsets.enabled = true
"""
FLOW = "west->east"
_LEFT = 200
_LOOK_SECONDS = 1.0
_PARTITION = 0


class TooShortRetention:
    """Deletes once what the flow has not copied yet of one partition; tries again if the flow was quicker."""

    def __init__(self, flow: FlowSettings, west: LocalKafka) -> None:
        self._reader = LagReader(flow, [RETURNS])
        self._west = west
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="retention", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            # Tried again if a cluster is busy for a moment, or a topic has no leader yet.
            with suppress(SrmError, KafkaException):
                if self._lose():
                    return

    def _lose(self) -> bool:
        """True when records are gone that were not copied, and can never be."""
        place = RETURNS.name, _PARTITION
        end = self._reader.end(*place)
        if not 0 < self._reader.positions().get(place, 0) < end - _LEFT:
            return False
        # A tenth stays, so that something is left to copy.
        start = end - _LEFT // 10
        for deleted in self._west.admin().delete_records([TopicPartition(*place, start)]).values():
            deleted.result()
        return self._reader.positions()[place] < start
