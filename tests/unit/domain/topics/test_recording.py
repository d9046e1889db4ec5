"""Which records a plan writes; which decisions lead there is tested with :mod:`simulated_flows`."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.policy import IdentityReplicationPolicy
from srm_common.domain.topics.recording import RecordTopic, plan_records
from srm_common.domain.topics.selection import TopicDecision
from srm_common.domain.topics.topic_records import Ancestor, Knowledge, TopicRecord, TopicRecords, TopicState

FLOW = FlowSettings(FlowName("a", "b"), ClusterSettings.plaintext("a", "a:1"), ClusterSettings.plaintext("b", "b:1"))
COPIED = TopicDecision("t", True, "matches", "a.t", "included")
RECORD = TopicRecord(
    "a->b", "t", "a.t", "u1", "d1", "id-a", "id-b", "DefaultReplicationPolicy", TopicState.REPLICATING, 5,
    (Ancestor("id-a", "a", "t"),),
)  # fmt: skip
IDS = {"t": "u1"}, {"a.t": "d1"}


def planned(
    decision: TopicDecision = COPIED,
    record: TopicRecord | None = RECORD,
    state: TopicState | None = None,
    ids: tuple[dict[str, str], dict[str, str]] = IDS,
    source: TopicRecords | None = None,
    flow: FlowSettings = FLOW,
) -> RecordTopic | None:
    records = {"a": source or TopicRecords(), "b": TopicRecords.of([record] if record else [])}
    knowledge = Knowledge("id-a", "id-b", records, now_ms=9)
    topics = plan_records(flow, knowledge, [(decision, state, "so it is")], *ids)
    assert len(topics) <= 1
    return topics[0] if topics else None


def test_a_new_topic_is_recorded_with_its_lineage() -> None:
    action = planned(record=None, ids=({"t": "u1"}, {}))
    assert action is not None
    assert action.is_new
    assert action.after == replace(RECORD, since_ms=9, downstream_topic_id="")
    assert str(action) == "record on b that a->b has t as a.t: replicating (named by DefaultReplicationPolicy)"
    assert ("lineage", None, "t on a") in [
        (difference.what, difference.before, difference.after) for difference in action.differences()
    ]


def test_nothing_is_written_where_nothing_changed() -> None:
    assert planned() is None
    # An id that is not told is no change.
    assert planned(ids=({"t": ""}, {"a.t": ""})) is None


def test_a_plan_made_again_says_the_same() -> None:
    first, again = planned(record=None), planned(record=None)
    assert first is not None
    assert again is not None
    later = replace(again, after=replace(again.after, since_ms=99))
    assert json.dumps(first.to_json()) == json.dumps(later.to_json())


def test_lineage_grows_with_what_comes_into_the_upstream_topic_and_never_shrinks() -> None:
    far = Ancestor("id-z", "z", "t")
    source = TopicRecords.of([replace(RECORD, flow="z->a", downstream_topic="t", upstream_cluster_id="id-z",
                                      lineage=(far,))])  # fmt: skip
    action = planned(source=source)
    assert action is not None
    assert not action.is_new
    assert action.after.lineage == (*RECORD.lineage, far)
    assert action.reason == "records of t on z come with it"
    assert planned(record=action.after) is None


def test_topics_that_are_copied_no_more_are_marked() -> None:
    dropped = TopicDecision("t", False, "excluded", code="excluded")
    action = planned(dropped, state=TopicState.DELISTED)
    assert action is not None
    assert action.after == replace(RECORD, state=TopicState.DELISTED, since_ms=9, reason="so it is")
    assert planned(dropped, record=action.after, state=TopicState.DELISTED) is None
    again = planned(record=action.after)
    assert again is not None
    assert again.is_new
    cut = planned(TopicDecision("t", False, "round and round", "a.t", "cycle"))
    assert cut is not None
    assert cut.after.state is TopicState.CUT


def test_a_claim_that_led_nowhere_is_not_marked() -> None:
    claim = replace(RECORD, state=TopicState.CLAIMED)
    assert planned(TopicDecision("t", False, "excluded", code="excluded"), claim, TopicState.DELISTED) is None


def test_a_topic_made_again_keeps_the_ids_of_the_former_ones() -> None:
    action = planned(ids=({"t": "u2"}, {"a.t": "d1"}))
    assert action is not None
    assert (action.after.upstream_topic_id, action.after.previous_upstream_ids) == ("u2", ("u1",))
    # While nobody has said what to do about the new one, the former id stays.
    waiting = planned(state=TopicState.RECREATED, ids=({"t": "u2"}, {"a.t": "d1"}))
    assert waiting is not None
    assert (waiting.after.upstream_topic_id, waiting.after.previous_upstream_ids) == ("u1", ())


@pytest.mark.parametrize("copy_id", ["d2", None])
def test_a_copy_that_replaces_another_keeps_its_id(copy_id: str | None) -> None:
    """Also one that does not exist yet."""
    action = planned(ids=({"t": "u1"}, {} if copy_id is None else {"a.t": copy_id}))
    assert action is not None
    assert action.replaces_copy
    assert (action.after.downstream_topic_id, action.after.previous_downstream_ids) == (copy_id or "", ("d1",))
    later = planned(record=action.after, ids=({"t": "u1"}, {"a.t": "d2"}))
    assert later is None or not later.replaces_copy
    assert (later or action).after.previous_downstream_ids == ("d1",)


@pytest.mark.parametrize("ids", [({"t": "u2"}, {"a.t": "d1"}), ({"t": "u2"}, {"a.t": ""})])
def test_a_copy_that_is_the_same_replaces_none(ids: tuple[dict[str, str], dict[str, str]]) -> None:
    action = planned(ids=ids)
    assert action is not None
    assert not action.replaces_copy
    assert "previous_downstream_ids" not in action.after.to_json()


def test_another_name_keeps_the_former_one() -> None:
    flow = replace(FLOW, policy=IdentityReplicationPolicy(source_alias="a"))
    action = planned(replace(COPIED, remote_topic="t"), ids=({"t": "u1"}, {}), flow=flow)
    assert action is not None
    assert action.is_new
    assert (action.after.downstream_topic, action.after.former_downstream_topics) == ("t", ("a.t",))
    assert action.after.downstream_topic_id == ""
    assert action.reason == "named by IdentityReplicationPolicy now; a.t stays as it is"
