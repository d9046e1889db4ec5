"""Reading to the end that was listed, from brokers that answer as brokers do when they are slow, or have compacted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from srm_common.errors import UnreachableCluster
from srm_common.kafka.client.links.link import EARLIEST, ClusterLink
from srm_common.kafka.client.protocol.frames import RawFetch
from srm_common.kafka.log.committed_log import newest_records
from srm_common.wire.batches.batch import HEADER, HEADER_SIZE, TRANSACTIONAL, stamp
from srm_common.wire.protocol.fetch import FetchAnswer, FetchedPartition
from srm_common.wire.state.plain_records import Newest, plain_records


def _batch(base: int, *entries: tuple[bytes, bytes | None], producer_id: int = -1) -> bytes:
    body = plain_records(entries)
    header = stamp(
        attributes=TRANSACTIONAL if producer_id >= 0 else 0,
        last_offset_delta=len(entries) - 1,
        base_timestamp=1,
        max_timestamp=1,
        record_count=len(entries),
        body=body,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
    )
    header = HEADER.pack(base, *HEADER.unpack(header)[1:])
    assert len(header) == HEADER_SIZE
    return bytes(header) + body


class _Broker:
    """A link to one broker with one log.

    Args:
        stable: its last stable offset.
        slow: so many answers have no records, as when a disk is slow or a quota is used up.
    """

    alias = "target"

    def __init__(self, batches: list[bytes], stable: int, slow: int = 0) -> None:
        self._batches = batches
        self._stable = stable
        self._slow = slow
        self.loop = SimpleNamespace(sleep=self._nothing)
        self.manager = SimpleNamespace(
            cluster=SimpleNamespace(unauthorized_topics=set()), config={"request_timeout_ms": 30_000}
        )

    async def _nothing(self, *_: object) -> None:
        return None

    track = refresh = _nothing

    def leader(self, *_: object) -> int:
        return 1

    async def offsets(
        self, places: list[tuple[str, int]], at: int, **_: object
    ) -> tuple[dict[tuple[str, int], int], dict[str, str]]:
        assert at == EARLIEST
        return dict.fromkeys(places, 0), {}

    async def post(self, _: int, request: RawFetch, timeout_ms: float | None) -> Any:
        return request.request

    async def answer(self, request: Any) -> FetchAnswer:
        (part,) = request.topics[0].partitions
        records = b""
        if self._slow:
            self._slow -= 1
        else:
            for batch in self._batches:
                base, delta = HEADER.unpack_from(batch)[0], HEADER.unpack_from(batch)[6]
                if base + delta >= part.fetch_offset and (base < self._stable or not request.isolation_level):
                    records = batch
                    break
        partition = FetchedPartition("t", part.partition, 0, 100, self._stable, 0, [], memoryview(records))
        return FetchAnswer(0, 0, [partition])


def _read(broker: _Broker, end: int, patience_seconds: float = 60.0) -> Newest:
    work = newest_records(cast(ClusterLink, broker), "t", {0: end}, patience_seconds=patience_seconds)
    with pytest.raises(StopIteration) as stop:
        work.send(None)
    found: dict[int, Newest] = stop.value.value
    return found[0]


def test_empty_answers_are_not_the_end() -> None:
    batches = [_batch(0, (b"a", b"1"), (b"b", b"2")), _batch(2, (b"a", b"3"), (b"b", None))]
    assert _read(_Broker(batches, 4, slow=7), 4) == {b"a": (2, b"3"), b"b": (3, None)}


def test_silence_is_an_error_that_names_the_place() -> None:
    broker = _Broker([_batch(0, (b"a", b"1"))], 1, slow=1 << 30)
    with pytest.raises(UnreachableCluster, match="partition t-0 of target cannot be read from offset 0 to 1: nothing"):
        _read(broker, 1, patience_seconds=0.05)


def test_what_compaction_took_before_an_open_transaction_is_passed() -> None:
    """Offsets 1 to 8 are gone; the next batch of the log belongs to a transaction that is open."""
    batches = [_batch(0, (b"a", b"1")), _batch(9, (b"a", b"open"), producer_id=5)]
    assert _read(_Broker(batches, 9), 9) == {b"a": (0, b"1")}


def test_more_of_the_log_is_not_taken_for_a_gap() -> None:
    """The answer without records came while there were some: they are read, and not passed over."""
    batches = [_batch(0, (b"a", b"1")), _batch(5, (b"a", b"2")), _batch(9, (b"a", b"open"), producer_id=5)]
    assert _read(_Broker(batches, 9, slow=1), 9) == {b"a": (5, b"2")}
