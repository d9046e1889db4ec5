from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings, OnDataLoss
from srm_common.domain.topics.lifecycle import LOSSES, Settled, TopicIds, restorable, settle
from srm_common.domain.topics.selection import TopicDecision
from srm_common.domain.topics.topic_records import TopicRecord, TopicState

FLOW = FlowSettings(FlowName("A", "B"), ClusterSettings.plaintext("A", "a:1"), ClusterSettings.plaintext("B", "b:1"))
RECORD = TopicRecord(
    "A->B", "t", "A.t", "u1", "d1", "id-a", "id-b", "DefaultReplicationPolicy", TopicState.REPLICATING, 1
)
WANTED = TopicDecision("t", True, "matches '.*' of topics", "A.t", "included")
SAME = TopicIds({"t": "u1"}, {"A.t": "d1"})


def settled(
    decision: TopicDecision | None = WANTED,
    record: TopicRecord | None = RECORD,
    ids: TopicIds = SAME,
    flow: FlowSettings = FLOW,
    restore: dict[str, OnDataLoss] | None = None,
) -> Settled:
    decisions = [] if decision is None else [decision]
    (found,) = settle(flow, decisions, {} if record is None else {"t": record}, ids, restore)
    return found


def test_what_did_not_change() -> None:
    assert settled() == Settled(WANTED, TopicState.REPLICATING)
    assert settled(record=None) == Settled(WANTED, TopicState.REPLICATING)
    # Not known is not different.
    assert settled(ids=TopicIds({}, {"A.t": ""})).notice is None
    assert settled(record=replace(RECORD, upstream_topic_id="", downstream_topic_id="")).notice is None


def test_a_deleted_source_topic_is_marked_and_its_copy_kept() -> None:
    found = settled(None, ids=TopicIds({}, {"A.t": "d1"}))
    assert found.state is TopicState.SOURCE_DELETED
    assert found.decision == TopicDecision("t", False, "deleted on A; its copy A.t is kept", "A.t", "source_deleted")


def test_a_topic_that_the_filters_drop() -> None:
    dropped = TopicDecision("t", False, "excluded by 't' of topics.exclude", code="excluded")
    found = settled(dropped)
    assert found.state is TopicState.DELISTED
    assert found.decision.reason == "excluded by 't' of topics.exclude; its copy A.t is kept"
    assert settled(dropped, record=None) == Settled(dropped)
    # Back on the list, nothing is lost.
    assert settled(record=replace(RECORD, state=TopicState.DELISTED)) == Settled(WANTED, TopicState.REPLICATING)


@pytest.mark.parametrize("code", ["cycle", "diamond", "policy_switch"])
def test_other_refusals_are_left_to_others(code: str) -> None:
    refused = TopicDecision("t", False, "no", code=code)
    assert settled(refused) == Settled(refused)


DELETED = TopicIds({"t": "u1"}, {})
REMADE = TopicIds({"t": "u1"}, {"A.t": "d2"})


def test_a_deleted_copy_does_not_come_back_by_accident() -> None:
    found = settled(ids=DELETED)
    assert (found.state, found.decision.accepted, found.decision.code) == (
        TopicState.TARGET_DELETED,
        False,
        "target_deleted",
    )
    assert found.decision.reason == (
        'A.t was deleted on B; copy everything again with: srm-control apply --flow "A->B" --recreate t, or continue '
        'where the flow stopped with: srm-control apply --flow "A->B" --resume t, or remove the topic from the filters'
    )


def test_a_copy_that_somebody_made_again_is_not_taken_for_ours() -> None:
    found = settled(ids=REMADE)
    assert (found.state, found.decision.accepted, found.decision.code) == (
        TopicState.RECREATED,
        False,
        "target_recreated",
    )
    assert found.decision.reason.startswith(
        "A.t on B was deleted and re-created by others (id d1 became d2), so what was copied before is gone; "
    )
    # It stays so until somebody decides.
    assert settled(record=replace(RECORD, state=TopicState.RECREATED), ids=REMADE).decision == found.decision
    assert settled(record=replace(RECORD, state=TopicState.TARGET_DELETED), ids=REMADE).decision == found.decision


@pytest.mark.parametrize("ids", [DELETED, REMADE])
@pytest.mark.parametrize(
    ("choice", "again", "doing"),
    [
        (OnDataLoss.SKIP, False, "copying continues where the flow stopped"),
        (OnDataLoss.RESET, True, "everything is copied again"),
    ],
)
def test_the_stated_choice_for_all_topics_or_for_one(
    ids: TopicIds, choice: OnDataLoss, again: bool, doing: str
) -> None:
    by_setting = settled(ids=ids, flow=replace(FLOW, on_target_loss=choice))
    assert by_setting.decision == WANTED
    assert (by_setting.state, by_setting.start_over) == (TopicState.REPLICATING, again)
    assert by_setting.notice is not None
    assert by_setting.notice.endswith(doing)
    assert settled(ids=ids, restore={"t": choice}) == by_setting
    assert not settled(ids=ids, restore={"other": choice}).decision.accepted


def test_a_copy_that_was_never_made_is_not_missing() -> None:
    assert settled(record=replace(RECORD, downstream_topic_id=""), ids=DELETED) == Settled(
        WANTED, TopicState.REPLICATING
    )


def test_a_source_topic_that_was_made_again_goes_by_on_data_loss() -> None:
    ids = TopicIds({"t": "u2"}, {"A.t": "d1"})
    waiting = settled(ids=ids)
    assert (waiting.decision, waiting.state) == (WANTED, TopicState.RECREATED)
    assert waiting.notice == (
        "t was deleted and re-created on A (id u1 became u2); on.data.loss = fail: its partitions are not copied "
        "until that is skip or reset"
    )
    going = settled(ids=ids, flow=replace(FLOW, on_data_loss=OnDataLoss.SKIP))
    assert (going.decision, going.state) == (WANTED, TopicState.REPLICATING)
    assert going.notice is not None
    assert going.notice.endswith("on.data.loss = skip: the new topic is copied from its start")


def test_topics_are_named_by_themselves_or_by_their_copies() -> None:
    choices = {"A.t": OnDataLoss.SKIP}
    assert restorable({"t": RECORD}, choices) == restorable({"t": RECORD}, {"t": OnDataLoss.SKIP})
    with pytest.raises(KeyError, match="x"):
        restorable({"t": RECORD}, {"x": OnDataLoss.SKIP})


maybe_id = st.sampled_from([None, "", "1", "2"])


@given(
    wanted=st.sampled_from([None, True, False]),
    state=st.sampled_from(sorted(TopicState)),
    recorded=st.tuples(st.sampled_from(["", "1"]), st.sampled_from(["", "1"])),
    here=maybe_id,
    there=maybe_id,
    data=st.sampled_from(OnDataLoss),
    target=st.sampled_from(OnDataLoss),
)
def test_nothing_is_copied_into_a_topic_that_is_known_to_be_another_unless_somebody_chose(
    wanted: bool | None,
    state: TopicState,
    recorded: tuple[str, str],
    here: str | None,
    there: str | None,
    data: OnDataLoss,
    target: OnDataLoss,
) -> None:
    record = replace(RECORD, state=state, upstream_topic_id=recorded[0], downstream_topic_id=recorded[1])
    ids = TopicIds({} if here is None else {"t": here}, {} if there is None else {"A.t": there})
    decision = None if wanted is None else replace(WANTED, accepted=wanted, code="included" if wanted else "excluded")
    found = settled(decision, record, ids, replace(FLOW, on_data_loss=data, on_target_loss=target))
    if not wanted:
        assert not found.decision.accepted
    known_to_be_another = recorded[1] == "1" and there in (None, "2")
    if wanted and known_to_be_another:
        assert found.decision.accepted is (target is not OnDataLoss.FAIL)
        assert found.start_over is (target is OnDataLoss.RESET)
        assert found.decision.accepted or found.decision.code in LOSSES
    elif wanted:
        assert found.decision.accepted
        assert not found.start_over


def test_a_copy_that_gets_another_name_begins_anew() -> None:
    renamed = replace(WANTED, remote_topic="t")
    found = settled(renamed)
    assert (found.state, found.start_over) == (TopicState.REPLICATING, True)
    assert found.notice == "t is copied again as t; A.t stays as it is"
    assert not settled(renamed, replace(RECORD, state=TopicState.CLAIMED)).start_over
