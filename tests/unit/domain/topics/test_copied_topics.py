"""What a flow copies by what is recorded on its target."""

from __future__ import annotations

from srm_common.domain.topics.copied_topics import CopiedTopics
from srm_common.domain.topics.topic_records import TopicRecord, TopicRecords, TopicState


def record(
    topic: str, state: TopicState, *, flow: str = "a->b", copy: str = "", former: tuple[str, ...] = ()
) -> TopicRecord:
    copy = copy or f"a.{topic}"
    copy_id = "" if state is TopicState.CLAIMED else f"id of {copy}"
    return TopicRecord(
        flow, topic, copy, "up", copy_id, "id-a", "id-b", "p", state, since_ms=1, former_downstream_topics=former
    )


def test_each_state_of_a_record() -> None:
    copied = CopiedTopics("a->b", TopicRecords.of(record(state.value, state) for state in TopicState))
    assert copied.going_on == {"replicating"}
    assert copied.names.keys() == {state.value for state in TopicState} - {"claimed"}
    assert copied.ids.keys() == {f"a.{state.value}" for state in TopicState} - {"a.claimed"}
    in_runs = {state for state in TopicState if copied.copied_in_runs(state.value, f"a.{state.value}")}
    assert in_runs == {TopicState.REPLICATING, TopicState.RECREATED}
    gone = {state for state in TopicState if copied.gone(state.value) is not None}
    assert gone == {TopicState.TARGET_DELETED}
    assert copied.gone("target_deleted") == "its copy a.target_deleted was deleted on the target"


def test_a_name_belongs_to_the_copy_that_was_made_under_it() -> None:
    copied = CopiedTopics("a->b", TopicRecords.of([record("t", TopicState.REPLICATING, copy="old.t")]))
    assert copied.name_of("t", "a.t") == "old.t"
    assert copied.name_of("u", "a.u") == "a.u"
    assert not copied.copied_in_runs("t", "a.t")
    assert copied.gone("u") is None


def test_who_else_writes_to_a_copy() -> None:
    records = [
        record("t", TopicState.REPLICATING, copy="t"),
        record("t", TopicState.REPLICATING, flow="c->b", copy="t"),
        record("t", TopicState.CUT, flow="d->b", copy="t"),
        record("t", TopicState.REPLICATING, flow="e->b", copy="e.t", former=("t",)),
    ]
    copied = CopiedTopics("a->b", TopicRecords.of(records))
    assert copied.other_writers("t") == ("c->b",)
    assert copied.feeders("t") == ("a->b", "c->b", "d->b", "e->b")
    assert copied.other_writers("e.t") == ("e->b",)
    assert copied.records.keys() == {"t"}
