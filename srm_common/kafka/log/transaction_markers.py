"""Finds the markers of transactions in the logs of their leaders, after the end of what was fetched.

Brokers do not list all aborted transactions (:mod:`srm_common.wire.batches.visibility`), but an uncommitted read
returns all markers.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from srm_common.domain.flow.principals import Right
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import AccessDenied, CorruptBatch, PartitionError, SrmError
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.client.protocol.buffers import Lease
from srm_common.kafka.client.protocol.fetch_request import FetchFrom, fetch_request
from srm_common.kafka.client.protocol.frames import RawFetch
from srm_common.kafka.log.log_facts import leader_epoch
from srm_common.wire.batches.batch import CONTROL, split, verify
from srm_common.wire.batches.visibility import Visible, fate
from srm_common.wire.protocol import fetch

_MAX_WAIT_MS = 500
#: Most markers are near; after large transactions more is read at a time.
_FIRST_BYTES, _MOST_BYTES = 64 << 10, 1 << 20
_PAUSE_SECONDS = 0.1
#: At the end of a log a marker may be about to arrive.
_END_SECONDS = 2.0


class Marker(NamedTuple):
    """The first of its producer from offset ``since`` on. ``aborted`` is None where compaction has removed the marker
    or its content."""

    since: int
    offset: int
    aborted: bool | None

    def follows(self, offset: int) -> bool:
        """Whether it is the first from ``offset`` on, too."""
        return self.since <= offset <= self.offset


@dataclass(slots=True)
class MarkerSearch:
    """A search in one partition for the first markers of ``producers`` from ``at`` on.

    ``producers`` are those without a marker so far, with the offsets of their first records in question.
    """

    place: TopicPartition
    at: int
    producers: dict[int, int]
    found: dict[int, Marker] = field(default_factory=dict)
    fault: SrmError | None = None
    #: Answers in a row without records of this partition: there may have been no room.
    empty: int = 0
    _start: int = field(init=False)
    _end_since: float = 0.0

    def __post_init__(self) -> None:
        self._start = self.at

    @property
    def over(self) -> bool:
        """Whether there is nothing more to look for."""
        return self.fault is not None or not self.producers

    def read(self, part: fetch.FetchedPartition) -> None:
        """Process the leader's response to an uncommitted read."""
        before = self.at
        self.empty = 0 if part.records else self.empty + 1
        for batch in split(part.records):
            header = batch.header
            if header.next_offset <= self.at:
                continue
            if header.attributes & CONTROL and header.producer_id in self.producers:
                verify(batch)
                self._find(header.producer_id, header.base_offset, fate(batch))
            self.at = header.next_offset
        if self.at < part.high_watermark or self.at > before:
            self._end_since = 0.0
        else:
            self._reached_end(part.last_stable_offset)

    def _reached_end(self, stable: int) -> None:
        """No marker follows records that their leader reports as stable: compaction has removed it."""
        now = time.monotonic()
        self._end_since = self._end_since or now
        if now - self._end_since >= _END_SECONDS:
            for producer, first in list(self.producers.items()):
                if first < stable:
                    self._find(producer, self.at, None)

    def _find(self, producer: int, offset: int, aborted: bool | None) -> None:
        del self.producers[producer]
        self.found[producer] = Marker(self._start, offset, aborted)


async def find_markers(
    link: ClusterLink,
    searches: Sequence[MarkerSearch],
    patience_seconds: float,
    heard: Callable[[], object] = lambda: None,
) -> None:
    """Carry out the searches, in few requests. A search that fails has a fault afterwards.

    Args:
        patience_seconds: how long all logs may return nothing.
        heard: called with each response.
    """
    size = _FIRST_BYTES
    lease = Lease(_MOST_BYTES + _FIRST_BYTES)
    moved, position = time.monotonic(), -1
    while waiting := [search for search in searches if not search.over]:
        reason = await _round(link, waiting, size, lease, heard)
        size = min(2 * size, _MOST_BYTES)
        if sum(search.at for search in searches) != position:
            moved, position = time.monotonic(), sum(search.at for search in searches)
        elif time.monotonic() - moved > patience_seconds:
            for search in waiting:
                if not search.over:
                    search.fault = PartitionError(_missing_marker(link, search, reason))
        if reason:
            await link.loop.sleep(_PAUSE_SECONDS)
            await link.refresh()


async def decide_by_markers(
    link: ClusterLink,
    place: TopicPartition,
    seen: Visible,
    patience_seconds: float,
    known: dict[int, Marker] | None = None,
) -> None:
    """Find the outcome of transactions whose markers come after a response.

    Args:
        known: the markers that were found for earlier answers of the same partition, by producer; those found now are
            added, so that a transaction that takes many answers is searched once.

    Raises:
        PartitionError, AccessDenied: that cannot be determined.
        CorruptBatch: a batch cannot be read.
    """
    if unproved := seen.unproved:
        markers = {} if known is None else known
        wanted = {
            producer: first
            for producer, first in unproved.items()
            if producer not in markers or not markers[producer].follows(first)
        }
        if wanted:
            search = MarkerSearch(place, seen.batches[-1][0].header.next_offset, dict(wanted))
            await find_markers(link, [search], patience_seconds)
            if search.fault is not None:
                raise search.fault
            markers |= search.found
        seen.decide({producer: markers[producer].aborted for producer in unproved})


def _missing_marker(link: ClusterLink, search: MarkerSearch, reason: str) -> str:
    producer, first = next(iter(search.producers.items()))
    topic, partition = search.place
    return (
        f"partition {topic}-{partition} at {link.alias}: a broker returns the records of producer {producer} from "
        f"offset {first} on as committed, but no marker up to offset {search.at} says so"
        + (f" ({reason})" if reason else "")
    )


async def _round(
    link: ClusterLink, searches: Iterable[MarkerSearch], size: int, lease: Lease, heard: Callable[[], object]
) -> str:
    """One answer from each leader; returns why to try again, in words."""
    by_leader: dict[int, dict[TopicPartition, MarkerSearch]] = defaultdict(dict)
    reason = ""
    for one in searches:
        leader = link.leader(*one.place)
        if leader is None:
            reason = str(link.leaderless(*one.place))
        else:
            by_leader[leader][one.place] = one
    for leader, ones in by_leader.items():
        try:
            answer = await link.send(leader, RawFetch(_request(link, ones.values(), size), lease))
        except RetriableFault as error:
            reason = str(error)
            continue
        except AccessDenied as error:
            for one in ones.values():
                one.fault = error
            continue
        heard()
        for part in answer.partitions:
            code = part.error_code or answer.error_code
            one = ones[TopicPartition(part.topic, part.partition)]
            if code in codes.DENIED:
                missing = Right("Read", "topic", part.topic).missing(link.settings)
                one.fault = AccessDenied(
                    f"partition {part.topic}-{part.partition} at {link.alias} may not be read; {missing}"
                )
            elif code:
                reason = f"partition {part.topic}-{part.partition} at {link.alias}: {codes.name(code)}"
            else:
                try:
                    one.read(part)
                except CorruptBatch as error:
                    one.fault = CorruptBatch(f"partition {part.topic}-{part.partition}: {error}")
    return reason


def _request(link: ClusterLink, searches: Iterable[MarkerSearch], size: int) -> Any:
    return fetch_request(
        (
            FetchFrom(*search.place, search.at, leader_epoch(link, search.place))
            for search in sorted(searches, key=lambda one: -one.empty)
        ),
        partition_bytes=size,
        max_bytes=_MOST_BYTES,
        max_wait_ms=_MAX_WAIT_MS,
        committed=False,
    )
