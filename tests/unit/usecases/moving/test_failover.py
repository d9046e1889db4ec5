"""Moves of groups between fake clusters: what is promised, what is done, and what a cluster in the way does to it."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from srm_common.domain.moving.moves import MoveKind, MoveMode, MoveReport, MoveRequest, StepName, StepState
from srm_common.errors import ConfigError, UnreachableCluster
from srm_common.usecases.flows.cluster_records import FlowTopics
from srm_common.usecases.moving.failover import Move, last_move
from tests.unit.usecases.fakes import GROUP_AUTHORIZATION_FAILED, Sides

COPY = ("a.orders", 0)


def request(mode: MoveMode = MoveMode.CONTROLLED, *, dry_run: bool = False) -> MoveRequest:
    return MoveRequest(MoveKind.FAILOVER, mode, dry_run=dry_run, wait_seconds=0.0)


def moved(sides: Sides, wanted: MoveRequest) -> MoveReport:
    """All steps, until one fails."""
    move = Move(sides.flow, wanted)
    for step in wanted.steps:
        if move.run(step).state is StepState.FAILED:
            break
    return move.report


@pytest.fixture
def copied(sides: Sides) -> Sides:
    """100 records copied; the group ``billing`` stands at 60 of them."""
    sides.source.create_topic("orders")
    sides.source.write("orders", [(b"k", b"%d" % number) for number in range(100)])
    sides.refresh()
    assert sides.run().records == 100
    sides.source.commit("billing", {("orders", 0): 60})
    return sides


def test_a_dry_run_says_where_groups_would_go_on_and_changes_nothing(copied: Sides) -> None:
    for kafka in (copied.source, copied.target):
        kafka.forget_requests()
    report = moved(copied, request(dry_run=True))
    assert [(position.topic, position.before, position.applied) for position in report.positions] == [
        ("a.orders", None, 60)
    ]
    assert copied.source.changes() == copied.target.changes() == []
    assert copied.target.committed("billing") == {}
    assert last_move(copied.flow) is None


def test_groups_go_on_where_they_stood(copied: Sides) -> None:
    report = moved(copied, request())
    assert (report.finished, report.read_again.most) == (True, 0)
    assert copied.target.committed("billing") == {COPY: 60}
    assert last_move(copied.flow) == report
    # A step that is repeated late moves nobody back.
    copied.target.commit("billing", {COPY: 70})
    again = Move(copied.flow, request()).run(StepName.APPLY)
    assert again.sentences == ("0 offsets of 0 groups committed on 'b'", "1 offset needed no change")
    assert copied.target.committed("billing") == {COPY: 70}


def test_what_is_not_copied_is_not_left_behind_by_accident(copied: Sides) -> None:
    copied.source.write("orders", [(b"k", b"more")] * 5)
    report = moved(copied, request())
    assert not report.finished
    assert "5 offsets of orders-0 are not copied yet; stop the producers" in report.steps[-1].sentences[0]
    assert copied.target.committed("billing") == {}


def test_topics_that_were_not_refreshed_yet_are_not_left_behind_by_accident(copied: Sides) -> None:
    copied.source.create_topic("orders.new")
    copied.source.write("orders.new", [(b"k", b"v")] * 5)
    copied.source.create_topic("orders.empty")
    copied.source.create_topic("payments")
    copied.source.write("payments", [(b"k", b"v")] * 5)
    move = Move(copied.flow, request())
    check, drain = move.run(StepName.CHECK), move.run(StepName.DRAIN)
    assert "but not copied yet: orders.empty, orders.new; positions in them are not moved" in check.sentences[-1]
    assert drain.state is StepState.FAILED
    assert drain.sentences[0].startswith(
        "5 offsets of orders.new-0 are not copied yet; no run copies orders.new yet, see srm-control plan; stop the "
    )
    assert move.run(StepName.VERIFY).state is StepState.FAILED
    copied.refresh()
    copied.run("again")
    assert moved(copied, request()).finished


def test_groups_of_a_stopped_topic_do_not_wait_for_it_one_by_one(copied: Sides) -> None:
    """Made again at the source, where on.data.loss lets no run go on."""
    copied.source.create_topic("orders.x")
    copied.source.write("orders.x", [(b"k", b"v")] * 10)
    copied.refresh()
    copied.run("first")
    copied.source.delete_topic("orders.x")
    copied.source.create_topic("orders.x")
    copied.source.write("orders.x", [(b"k", b"v")] * 30)
    copied.refresh()
    copied.source.commit("billing", {("orders", 0): 60, ("orders.x", 0): 25})
    move = Move(copied.flow, request(MoveMode.CONTINUOUS))
    check, drain = move.run(StepName.CHECK), move.run(StepName.DRAIN)
    assert "but stopped: orders.x (" in check.sentences[-1]
    assert "not copied yet" not in str(check.sentences)
    assert (drain.state, drain.sentences) == (StepState.DONE, ("everything that the groups have read is copied",))
    controlled = Move(copied.flow, request())
    controlled.run(StepName.CHECK)
    assert "no run copies orders.x yet" in controlled.run(StepName.DRAIN).sentences[0]
    copied.source.commit("billing", {("orders", 0): 60})
    copied.source.write("orders", [(b"k", b"more")])
    copied.source.commit("billing", {("orders", 0): 101})
    assert "orders-0 is not copied up to 101 yet" in move.run(StepName.DRAIN).sentences[0]


def test_what_is_not_known_of_new_topics_ends_no_move_on_a_bad_day(
    copied: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> FlowTopics:
        raise UnreachableCluster("cluster 'a' does not respond")

    copied.source.write("orders", [(b"k", b"more")] * 5)
    monkeypatch.setattr(FlowTopics, "decided", silent)
    move = Move(copied.flow, request(MoveMode.DISASTER))
    assert move.run(StepName.CHECK).state is StepState.DONE
    assert "5 offsets of orders-0 are not copied yet" in move.run(StepName.DRAIN).sentences[0]


def test_records_behind_an_open_transaction_are_not_left_behind(copied: Sides) -> None:
    producer = Producer({"bootstrap.servers": copied.source.bootstrap_servers, "transactional.id": "till"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("orders", b"open")
    producer.flush(60)
    copied.source.write("orders", [(b"k", b"behind")])
    report = moved(copied, request())
    assert not report.finished
    assert report.steps[-1].step is StepName.DRAIN
    assert report.steps[-1].sentences == (
        "orders-0 cannot be copied beyond offset 100 yet, because a transaction is open there; if it does not end by "
        f"itself: kafka-transactions.sh --bootstrap-server {copied.source.bootstrap_servers} abort --topic orders "
        "--partition 0 --start-offset 100",
    )
    assert copied.target.committed("billing") == {}
    producer.abort_transaction(60)
    assert "orders-0 are not copied yet" in moved(copied, request()).steps[-1].sentences[0]
    assert copied.run("more").records == 1
    assert moved(copied, request()).finished


def test_a_group_that_is_read_at_the_target_is_not_moved(copied: Sides) -> None:
    copied.target.join("billing", "reader", ["a.orders"])
    report = moved(copied, request())
    assert copied.target.committed("billing") == {}
    assert "billing" in str(report.to_json())


def test_a_group_that_may_not_be_set_is_said(copied: Sides) -> None:
    copied.target.refuse("OffsetCommit", GROUP_AUTHORIZATION_FAILED, when="billing")
    report = moved(copied, request())
    assert not report.finished
    assert "Read on group 'billing'" in str(report.to_json())
    assert copied.target.committed("billing") == {}


def test_an_offset_whose_commit_was_not_confirmed_is_the_same_after_a_repetition(copied: Sides) -> None:
    copied.target.drop_answer("OffsetCommit")
    moved(copied, request())
    assert moved(copied, request()).finished
    assert copied.target.committed("billing") == {COPY: 60}


def test_one_group_that_is_refused_does_not_keep_the_others_from_moving(copied: Sides) -> None:
    copied.source.commit("shipping", {("orders", 0): 30})
    with copied.target.refuse("OffsetCommit", GROUP_AUTHORIZATION_FAILED, when="billing"):
        assert not moved(copied, request()).finished
    assert copied.target.committed("billing") == {}
    assert copied.target.committed("shipping") == {COPY: 30}
    assert moved(copied, request()).finished
    assert copied.target.committed("billing") == {COPY: 60}


def test_a_step_that_depends_on_steps_of_another_move_is_refused(copied: Sides) -> None:
    with pytest.raises(ConfigError, match="start with step check"):
        Move(copied.flow, request()).run(StepName.APPLY)
    assert copied.target.committed("billing") == {}
