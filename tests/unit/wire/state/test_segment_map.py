from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srm_common.domain.offsets.fingerprints import NO_BATCHES, Fingerprint
from srm_common.domain.offsets.segments import OffsetSpan, Segment, build_segment
from srm_common.domain.offsets.translation import Translated, Unmapped, translate, translate_back
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import CorruptRecord
from srm_common.kafka.state.segment_log import SegmentBatch
from srm_common.wire.state.plain_records import Headers, write_headers
from srm_common.wire.state.segment_map import CommittedSegments, MapChanges, SegmentMap, map_changes
from srm_common.wire.state.segments import encode_segment, segment_headers
from tests.examples import examples
from tests.unit.domain.offsets.current_map import current_map


@st.composite
def histories(draw: st.DrawFn) -> list[Segment]:
    """Segments in the order of their commits; now and then the topic is copied again, cut, or made anew."""
    upstream = downstream = 0
    generation = draw(st.sampled_from([0, 1]))
    out = []
    for _ in range(draw(st.integers(0, 12))):
        what = draw(st.sampled_from(["on"] * 6 + ["back", "cut", "anew", "unknown"]))
        if what == "back":
            upstream = draw(st.integers(0, upstream))
        elif what == "cut":
            downstream = draw(st.integers(0, downstream))
        elif what == "anew":
            upstream, generation = draw(st.integers(0, 200)), generation + 1
        length = draw(st.integers(1, 30))
        runs = [OffsetSpan(upstream, length, downstream, length)]
        label = 0 if what == "unknown" else generation
        out.append(build_segment("t", 4, upstream, upstream + length + 2, runs, 999, label))
        upstream += length + 2
        downstream += length + draw(st.sampled_from([1, 1, 9]))
    return out


def committed_of(history: list[Segment]) -> CommittedSegments:
    committed = CommittedSegments("t", 4, [])
    for offset, segment in enumerate(history):
        committed.put(segment.upstream_start, encode_segment(segment)[1], offset)
    return committed


@settings(max_examples=examples(300))
@given(histories())
def test_it_says_what_the_plain_map_says(history: list[Segment]) -> None:
    committed = committed_of(history)
    last = {segment.upstream_start: number for number, segment in enumerate(history)}
    live = [segment for number, segment in enumerate(history) if last[segment.upstream_start] == number]
    assert list(committed) == live
    assert [committed[number] for number in range(len(live))] == committed[:] == live
    plain, packed = current_map(live), SegmentMap(committed)
    assert list(packed) == plain == packed[:]
    assert plain[-1:] == ([packed[-1]] if plain else [])
    for position in range(0, 500, 3):
        assert packed.translate(position) == translate(plain, position)


def test_a_tombstone_takes_its_segment_out() -> None:
    first = build_segment("t", 4, 0, 5, [OffsetSpan(0, 5, 0, 5)], 999)
    second = build_segment("t", 4, 5, 9, [OffsetSpan(5, 4, 6, 4)], 999)
    committed = committed_of([first, second])
    committed.put(0, None, 2)
    committed.put(77, None, 3)
    assert list(committed) == [second]
    assert SegmentMap(committed).translate(6) == Translated(7, True)


def test_what_cannot_be_read_maps_nothing_and_is_told_once() -> None:
    unreadable: list[str] = []
    committed = CommittedSegments("t", 4, unreadable)
    for start in (0, 5):
        _, value = encode_segment(build_segment("t", 4, start, start + 5, [OffsetSpan(start, 5, start, 5)], 999))
        committed.put(start, value if start else value + b"\0", start)
    packed = SegmentMap(committed)
    found = packed.translate(2)
    assert isinstance(found, Unmapped)
    assert "segment of t-4 from offset 0 continues after its end" in found.reason
    assert packed.translate(7) == Translated(7, True)
    with pytest.raises(CorruptRecord):
        committed[0]
    assert len(list(committed)) == len(list(committed)) == 1
    assert len(unreadable) == 1


def test_an_empty_map_knows_nothing() -> None:
    assert isinstance(SegmentMap(CommittedSegments("t", 0, [])).translate(0), Unmapped)


def test_only_the_segments_of_the_position_are_decoded() -> None:
    history = [build_segment("t", 4, n * 5, n * 5 + 5, [OffsetSpan(n * 5, 5, n * 6, 5)], 999) for n in range(50)]
    committed = committed_of(history)
    broken = encode_segment(replace(history[30], upstream_end=10_000))[1][:-1]
    committed.put(1_000_000, broken, 50)  # behind all others, and never looked at
    assert SegmentMap(committed).translate(12) == Translated(14, True)


@dataclass
class Topic:
    """One partition of the segments topic; compaction leaves holes."""

    records: dict[int, tuple[bytes, bytes | None, bytes]] = field(default_factory=dict)
    end: int = 0

    def append(self, key: bytes, value: bytes | None, headers: Headers = ()) -> None:
        self.records[self.end] = (key, value, write_headers(headers))
        self.end += 1

    def compact(self) -> None:
        last = {key: offset for offset, (key, _, _) in self.records.items()}
        self.records = {
            offset: (key, value, headers)
            for offset, (key, value, headers) in self.records.items()
            if last[key] == offset and value is not None
        }

    def read(self) -> CommittedSegments:
        batch = SegmentBatch()
        for offset, (key, value, headers) in self.records.items():
            batch.put(key, value, offset, headers)
        return batch.segments.get(TopicPartition("t", 4), CommittedSegments("t", 4, []))


@dataclass
class Round:
    """A round of pruning: it has read, then writes, then drops what it knows not to have been written since."""

    changes: MapChanges
    end: int
    has_written: bool = False

    def go_on(self, topic: Topic) -> bool:
        if not self.has_written:
            for key, value, headers in self.changes.written:
                topic.append(key, value, headers)
            self.has_written = True
            return True
        later = {key for offset, (key, _, _) in topic.records.items() if offset >= self.end}
        for key in self.changes.dropped:
            if key not in later:
                topic.append(key, None)
        return False


@st.composite
def commits(draw: st.DrawFn) -> list[Segment]:
    """Small chunks; now and then the topic is created again, and a part is copied again or the target's log cut.

    Not both: where a repetition was cut away within the few chunks of one round, what it had replaced comes back with a
    joined segment, which then knows of copies that single ones have forgotten.
    """
    upstream = downstream = 0
    generation = 1
    out = []
    restless = draw(st.sampled_from([[], ["back", "anew"], ["cut", "anew"]]))
    starts: set[int] = set()
    for _ in range(draw(st.integers(5, 25))):
        what = draw(st.sampled_from(["on"] * 20 + ["lost", "aborted", *restless]))
        if what == "back":
            upstream = draw(st.integers(0, upstream))
        elif what == "cut":
            downstream = draw(st.integers(0, downstream))
        elif what == "anew":
            upstream, generation = 0, generation + 1
            starts.clear()
        elif what == "lost":
            upstream += 3
        elif what == "aborted":
            downstream += 3
        while upstream in starts:
            upstream += 1  # a second one would take the place of the first in the topic, with what it replaced
        starts.add(upstream)
        length = draw(st.integers(1, 3))
        # Markers before the records, which may have been chunks of their own, and behind them.
        ahead = 0 if restless else draw(st.sampled_from([0, 0, 2]))
        hole = draw(st.sampled_from([0, 0, 1]))
        runs = [OffsetSpan(upstream + ahead, length, downstream, length)]
        end = upstream + ahead + length + hole
        out.append(build_segment("t", 4, upstream, end, runs, 999, generation))
        upstream = end
        downstream += length + 1
    return out


@settings(max_examples=examples(150))
@given(commits(), st.data())
def test_whoever_reads_at_any_moment_finds_the_same_map(history: list[Segment], data: st.DataObject) -> None:
    topic = Topic()
    rounds: list[Round] = []
    committed: list[Segment] = []
    waiting = list(history)
    while waiting or rounds:
        step = data.draw(st.sampled_from(["commit"] * 8 * bool(waiting) + ["begin", "go on", "go on", "compact"]))
        if step == "commit":
            committed.append(waiting.pop(0))
            topic.append(*encode_segment(committed[-1]))
        elif step == "begin" and len(rounds) < 2 and waiting:
            rounds.append(Round(map_changes(topic.read(), 0, topic.end, least=2, newest=1), topic.end))
        elif step == "go on" and rounds:
            going = data.draw(st.sampled_from(rounds))
            if not going.go_on(topic):
                rounds.remove(going)
        elif step == "compact":
            topic.compact()
        if step != "commit":
            same_map(committed, topic.read())
    topic.compact()
    same_map(committed, topic.read())


def same_map(history: list[Segment], committed: CommittedSegments) -> None:
    truth, segment_map = current_map(history), SegmentMap(committed)
    touched = any(
        one.joined and (one.runs[-1].upstream_end > after.upstream_start or one.downstream_end > after.downstream_start)
        for one, after in pairwise(segment_map)
    )
    if not touched:
        for position in range(history[-1].upstream_end + 3 if history else 3):
            assert segment_map.translate(position) == translate(truth, position)
        for position in range(truth[-1].downstream_end + 3 if truth else 3):
            assert translate_back(segment_map, position) == translate_back(truth, position)
        return
    # A later segment begins in the middle of a joined one: what it leaves says the same.
    for segment in truth:
        for position in range(segment.upstream_start + 1, segment.upstream_end):
            assert segment_map.translate(position) == translate(truth, position)
        for position in range(segment.downstream_start + 1, segment.downstream_end):
            assert translate_back(segment_map, position) == translate_back(truth, position)


def test_a_long_history_becomes_one_record_and_its_keys_are_dropped() -> None:
    topic = Topic()
    for number in range(500):
        runs = [OffsetSpan(number * 2, 2, number * 3, 2)]
        topic.append(*encode_segment(build_segment("t", 4, number * 2, number * 2 + 2, runs, 999)))
    changes = map_changes(topic.read(), 0, topic.end)
    assert (len(changes.written), changes.joined, changes.replaced, len(changes.dropped)) == (1, 496, 0, 496)
    Round(changes, topic.end, True).go_on(topic)
    before = sum(len(key) + len(value) for key, value, _ in topic.records.values() if value)
    for written in changes.written:
        topic.append(*written)
    topic.compact()
    assert len(topic.records) == 5
    assert sum(len(key) + len(value) for key, value, _ in topic.records.values() if value) < before / 20
    assert SegmentMap(topic.read()).translate(700) == Translated(1049, True)
    # The next round has nothing to do, until there is more.
    assert map_changes(topic.read(), 0, topic.end) == MapChanges()


def test_a_joined_segment_has_the_fingerprint_of_all_and_none_is_mixed_with_those_that_have_none() -> None:
    topic = Topic()
    for number in range(30):
        fingerprint = Fingerprint(number << 50, number << 27) if number >= 10 else None
        runs = [OffsetSpan(number * 2, 2, number * 3, 2)]
        segment = build_segment("t", 4, number * 2, number * 2 + 2, runs, 999, fingerprint=fingerprint)
        topic.append(*encode_segment(segment), segment_headers(segment))
    changes = map_changes(topic.read(), 0, topic.end)
    Round(changes, topic.end).go_on(topic)
    Round(changes, topic.end, True).go_on(topic)
    topic.compact()
    older, newer, *alone = SegmentMap(topic.read())
    assert (older.joined, older.upstream_end, older.fingerprint) == (True, 20, None)
    whole = NO_BATCHES
    for number in range(10, 26):
        whole = whole.plus(Fingerprint(number << 50, number << 27))
    assert (newer.joined, newer.upstream_end, newer.fingerprint) == (True, 52, whole)
    assert [one.fingerprint for one in alone] == [Fingerprint(number << 50, number << 27) for number in range(26, 30)]


def test_what_others_have_not_read_yet_is_not_joined() -> None:
    topic = Topic()
    for number in range(20):
        topic.append(
            *encode_segment(build_segment("t", 4, number, number + 1, [OffsetSpan(number, 1, number * 2, 1)], 999))
        )
    assert map_changes(topic.read(), 0, 3) == MapChanges()
    assert map_changes(topic.read(), 0, 10).joined == 10


def test_what_left_the_target_and_what_was_replaced_is_dropped_but_the_newest_stays() -> None:
    topic = Topic()
    chunks = [build_segment("t", 4, n * 10, n * 10 + 10, [OffsetSpan(n * 10, 10, n * 11, 10)], 999) for n in range(3)]
    keys = [encode_segment(chunk)[0] for chunk in chunks]
    for chunk in chunks:
        topic.append(*encode_segment(chunk))
    for log_start, dropped in ((0, 0), (9, 0), (10, 1), (11, 1), (20, 1), (21, 2), (9999, 2)):
        changes = map_changes(topic.read(), log_start, topic.end)
        assert (changes.dropped, changes.replaced) == (keys[:dropped], dropped)
    topic.append(*encode_segment(build_segment("t", 4, 5, 25, [OffsetSpan(5, 20, 40, 20)], 999)))
    assert map_changes(topic.read(), 0, topic.end).dropped == keys[1:]


@pytest.mark.parametrize("joined", [False, True])
def test_a_damaged_segment_that_looks_like_one_of_the_other_kind_is_passed_over(joined: bool) -> None:
    """The byte behind the head says that a body is compressed; the key says another thing."""
    unreadable: list[str] = []
    committed = CommittedSegments("orders", 0, unreadable)
    if joined:
        committed.put_joined(5, bytes(12) + b"\5\xff", 9)
    else:
        committed.put(5, bytes(12) + b"\0\xff\xff", 9)
    assert list(committed) == []
    assert len(unreadable) == 1
    assert len(committed) == 0
