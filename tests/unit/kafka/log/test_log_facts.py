from __future__ import annotations

import time
from bisect import bisect_left

from hypothesis import example, given
from hypothesis import strategies as st

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.log.log_facts import MOST_QUESTIONS, TimestampSearch, epoch_ends
from srm_common.testing import FakeCluster

NOW = 1_800_000_000_000
HOUR = 3_600_000

#: Steps from record to record: (offsets, milliseconds). Compaction and transactions leave holes.
STEPS = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 400_000_000)), min_size=1, max_size=60)


def searched(records: list[tuple[int, int]], offset: int, newest_ms: int | None) -> tuple[TimestampSearch, int]:
    """A search of a log of (offset, timestamp), and its number of questions."""
    search = TimestampSearch.beyond(offset, newest_ms, NOW)
    stamps = [stamp for _, stamp in records]
    for asked in range(MOST_QUESTIONS):
        if search.done:
            return search, asked
        at = bisect_left(stamps, search.asked_ms)
        search.learn(*(records[at] if at < len(records) else (-1, -1)))
    return search, MOST_QUESTIONS


@given(STEPS, st.data())
@example([(1, 1000)] * 50, None)
def test_the_first_record_beyond_an_offset_is_dated_to_within_a_fiftieth_of_its_age(
    steps: list[tuple[int, int]], data: st.DataObject | None
) -> None:
    records, offset, stamp = [], 0, NOW - 1 - sum(later for _, later in steps)
    for further, later in steps:
        records.append((offset, stamp))
        offset, stamp = offset + further, stamp + later
    position = 0 if data is None else data.draw(st.integers(0, records[-1][0]))
    first = next(stamp for offset, stamp in records if offset >= position)
    before = [stamp for offset, stamp in records if offset < position]
    known = None if data is None or not before else data.draw(st.none() | st.sampled_from(before))
    search, _ = searched(records, position, known)
    found = search.oldest_ms
    assert found is not None
    if search.done:
        assert found == first
        return
    # Given up among records that are close together: no later than it, and as near as is known.
    assert found <= first
    limited_to = min(first, search.high_ms)
    assert limited_to - found <= max(1000, 0.02 * (NOW - limited_to)) + 2, "but for roundings"


def test_after_a_run_one_question_tells_exactly() -> None:
    records = [(number, NOW - 2 * HOUR + number * 60_000) for number in range(100)]
    assert searched(records, 40, records[39][1]) == (searched(records, 40, records[39][1])[0], 1)
    assert searched(records, 40, records[39][1])[0].oldest_ms == records[40][1]
    # Also behind a hole, and with nothing copied yet.
    assert searched([*records[:40], *records[45:]], 40, records[39][1])[0].oldest_ms == records[45][1]
    search, asked = searched(records, 0, None)
    assert (search.oldest_ms, asked) == (records[0][1], 1)


def test_a_log_that_does_not_tell() -> None:
    assert searched([], 5, NOW - HOUR)[0].oldest_ms is None
    assert searched([(0, NOW - HOUR)], 1, NOW - HOUR)[0].oldest_ms is None, "a marker waits, and no record"


def test_leaders_that_do_not_answer_about_epochs_are_waited_for_side_by_side() -> None:
    nodes, seconds = 6, 1.0
    with FakeCluster(nodes) as kafka:
        kafka.create_topic("orders", nodes)
        places = [TopicPartition("orders", number) for number in range(nodes)]
        cluster = ClusterSettings.plaintext("c", kafka.bootstrap_servers)
        with ClusterLink(cluster, request_timeout_ms=int(1000 * seconds)) as link:
            link.run(lambda: link.open(["orders"], 30))
            with kafka.silence("OffsetForLeaderEpoch"):
                began = time.monotonic()
                ends, faults = link.run(lambda: epoch_ends(link, dict.fromkeys(places, 0)))
                took = time.monotonic() - began
        assert (ends, set(faults)) == ({}, set(places))
        assert took < (nodes - 1) * seconds
