"""What state topics hold: MirrorMaker 2's records, segments of the offset map, and our own documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from srm_common.domain.flow.heartbeats import Heartbeat
from srm_common.domain.flow.service_advertisement import Advertisement
from srm_common.domain.health.notified_alarms import AlarmMemory
from srm_common.domain.health.watched_flow import WatchMemory
from srm_common.domain.offsets.checkpoints import Checkpoint, CheckpointMemory
from srm_common.domain.offsets.offset_syncs import OffsetSync
from srm_common.domain.offsets.segments import OffsetSpan, Segment
from srm_common.domain.runs.run_record import Installation, RunRecord
from srm_common.domain.topics.refresh_memory import RefreshMemory
from srm_common.domain.topics.source_topics import SourceTopics
from srm_common.domain.topics.topic_records import ClusterBinding, TopicRecord
from srm_common.errors import CorruptBatch, CorruptRecord
from srm_common.kafka.state.flow_state import flow_value
from srm_common.kafka.state.keyed_topic import decode
from srm_common.kafka.state.segment_log import SegmentBatch
from srm_common.kafka.state.topic_registry import _key
from srm_common.wire.state import mm2
from srm_common.wire.state.plain_records import read_headers
from srm_common.wire.state.segment_map import SegmentMap, map_changes
from srm_common.wire.state.segments import decode_segment, encode_joined, encode_segment, header_bytes
from tests.fuzz.target import Target

_NAMED = (CorruptRecord,)


def pair(key: bytes, value: bytes) -> bytes:
    """A record as one input."""
    return len(key).to_bytes(2, "big") + key + value


def _parts(data: bytes) -> tuple[bytes, bytes]:
    length = int.from_bytes(data[:2], "big")
    return data[2 : 2 + length], data[2 + length :]


def _of_pair(reads: Callable[[bytes, bytes], object]) -> Callable[[bytes], object]:
    return lambda data: reads(*_parts(data))


def _segment(topic: str, start: int, spans: int, down: int = 0) -> Segment:
    runs = [OffsetSpan(start + 10 * at, 7 + at % 2, down + 9 * at, 7, at % 3 == 0) for at in range(spans)]
    end, last = start + 10 * spans, runs[-1]
    return Segment(topic, 0, start, end, down, last.downstream_end, tuple(runs), 3)


_SEGMENTS = [_segment("orders", 0, 1), _segment("orders", 10, 5, 40), _segment("ü", 900, 60, 1 << 40)]
SEGMENTS = [pair(*encode_segment(segment)) for segment in _SEGMENTS] + [
    pair(*encode_joined(segment, 77)) for segment in _SEGMENTS
]


def _map(data: bytes) -> None:
    """A log of several records, of which some are damaged: it can always be read, and says which could not."""
    batch = SegmentBatch()
    for place, piece in enumerate([*SEGMENTS[:2], data, SEGMENTS[3], data[:-1]]):
        key, value = _parts(piece)
        with suppress(CorruptRecord):
            batch.put(key, value, place)
    for committed in batch.segments.values():
        list(committed)
        known = SegmentMap(committed)
        for position in (0, 5, 44, 1 << 50):
            known.translate(position)
        map_changes(committed, 3, 100, least=2, newest=0)


def _source_offsets(key: bytes, value: bytes) -> None:
    mm2.parse_source_offset_key(key)
    mm2.parse_source_offset_value(value)


def _headers(data: bytes) -> None:
    read_headers(data)
    mm2.epoch_in(data)
    mm2.from_zero(data)
    mm2.copied_to_in(data, 5)
    header_bytes(data)


def _document(data: bytes) -> None:
    """As each of those that read documents in state topics, of which one may find another's."""
    for kind in _KINDS:
        with suppress(CorruptRecord):
            decode(data, kind, "'key' at offset 1 of a topic on cluster 'c'")
    value, _ = flow_value(data, "'key' at offset 1 of a topic on cluster 'c'")
    for kind in _VALUES:
        with suppress(CorruptRecord):
            kind(value)


_KINDS: Sequence[Callable[[dict[str, Any]], object]] = (
    TopicRecord.from_json,
    ClusterBinding.from_json,
    partial(Advertisement.from_json, seen_ms=1),
)
_VALUES: Sequence[Callable[[Any], object]] = (
    RunRecord.from_json,
    SourceTopics.from_json,
    RefreshMemory.from_json,
    CheckpointMemory.from_json,
    AlarmMemory.from_json,
    WatchMemory.from_json,
    Installation.from_json,
)
_SEEDS = Path(__file__).parent / "seeds/documents.json"
DOCUMENTS = [json.dumps(document).encode() for document in json.loads(_SEEDS.read_text())]


TARGETS = (
    Target("documents", DOCUMENTS, _document, _NAMED),
    Target("registry-key", [b'["topic","a->b","orders"]', b'["cluster","a"]', b'{"a":1}'], _key, ()),
    Target("segment", SEGMENTS, _of_pair(decode_segment), _NAMED, keep=3),
    Target("segment-map", SEGMENTS, _map, (), keep=3),
    Target(
        "heartbeat",
        [pair(*mm2.encode_heartbeat(Heartbeat("east", "west", 1_700_000_000_000)))],
        _of_pair(mm2.decode_heartbeat),
        _NAMED,
        keep=2,
    ),
    Target(
        "checkpoint",
        [pair(*mm2.encode_checkpoint(Checkpoint("g", "orders", 3, 100, 90, "meta")))],
        _of_pair(mm2.decode_checkpoint),
        _NAMED,
        keep=2,
    ),
    Target(
        "offset-sync",
        [pair(*mm2.encode_offset_sync(OffsetSync("orders", 3, 100, 90)))],
        _of_pair(mm2.decode_offset_sync),
        _NAMED,
        keep=2,
    ),
    Target(
        "source-offset",
        [
            pair(mm2.source_offset_key("east", "orders", 3), mm2.source_offset_value(100)),
            pair(b"[]", b'{"offset":null}'),
        ],
        _of_pair(_source_offsets),
        _NAMED,
        keep=2,
    ),
    Target(
        "state-headers",
        [b"\2" + b"\x1esrm.leader.epoch"[:1] + b"srm.leader.epoch"[:15] + b"\2" + b"5", b"\0", b"\2\4hh\1"],
        _headers,
        (CorruptBatch, CorruptRecord),
    ),
)
