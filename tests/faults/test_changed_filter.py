"""A filter that is changed between a run that was killed and the next one: each record goes through one of the two."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import pytest

from srm_common.domain.offsets.translation import Translated
from srm_common.domain.transforms.statements import Statement
from srm_common.kafka.state.source_offsets import read_source_offsets
from srm_common.replication.driver.ownership import Ownership
from srm_common.testing import LocalKafka
from tests.faults.scenario import LONG, Scenario
from tests.faults.verification import ongoing, unstable
from tests.kafka.records import Placed
from tests.kafka.translations import logs, translated

pytestmark = [pytest.mark.faults, pytest.mark.kafka]

#: What the filter before keeps, the one after drops, and the other way round.
BEFORE = Statement("transforms.sql", "SELECT key FROM records WHERE key IS NOT NULL AND value IS NOT NULL")
AFTER = Statement("transforms.sql", "SELECT key FROM records WHERE key IS NULL OR value IS NULL")


def kept_before(one: Placed) -> bool:
    """Whether the first filter keeps it."""
    return one.seen.key is not None and one.seen.value is not None


def test_driver_and_workers_killed_before_the_filter_changes(
    source_kafka: LocalKafka, target_kafka: LocalKafka, scenario: Callable[..., Scenario]
) -> None:
    """The copy is the old filter's up to the last chunk that was committed, and the new one's from there."""
    one = scenario(source_kafka, target_kafka, statements=(BEFORE,))
    with one.writing():
        # By its record the change is told.
        earlier = one.last_run()
        run = one.start_run(LONG, until_copying=True)
        for _ in range(3):
            one.wait_for_copied(run, one.copied_offsets() + 50)
        one.pause(0.0, 0.8)
        run.kill_all()
        one.set(statements=(AFTER,))
        # Aborts what the killed workers left open, as the next run does first.
        Ownership.take(one.flow, one.flow.tasks_max, one.flow.tasks_max).release()
        committed = {place.partition: at for place, at in read_source_offsets(one.flow, one.state).items()}
        one.note(f"committed up to {committed}")
        one.pause(0.5, 1.0)
    last = one.last_run().record()

    told = [note for note in last.notes if "the transforms have changed since run" in note]
    assert len(told) == 1, last.notes
    assert one.flow.transforms_digest in told[0]
    assert not [note for note in earlier.record().notes if "changed since" in note]
    upstream, downstream = logs(source_kafka, one.topic), logs(target_kafka, one.remote)
    answers = translated(one.flow, one.topic, upstream)
    for partition, log in upstream.items():
        kept = [record for record in log if kept_before(record) == (record.offset < committed[partition])]
        # Records went through either filter, and each of them dropped some.
        assert {kept_before(record) for record in kept} == {kept_before(record) for record in log} == {True, False}
        assert [record.seen for record in downstream[partition]] == [record.seen for record in kept]
        offsets, copies = ([record.offset for record in some] for some in (kept, downstream[partition]))
        for position in range(log[-1].offset + 2):
            answer = answers[partition, position]
            assert isinstance(answer, Translated), (partition, position, answer)
            assert answer.exact, (partition, position, answer)
            read, wanted = (bisect_left(some, at) for some, at in ((copies, answer.offset), (offsets, position)))
            assert read == wanted, (partition, position, answer)
    assert not ongoing(target_kafka, one.flow.name)
    assert not unstable(target_kafka, [one.remote, one.state.offsets_topic, one.state.segments_topic])
