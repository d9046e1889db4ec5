"""Transactions of other producers at the source that stay open: what a run says of the records behind them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from srm_common.domain.flow.names import StateKey
from srm_common.domain.runs.open_transaction import OpenTransaction
from srm_common.domain.runs.run_record import RunState
from srm_common.domain.topic_partition import TopicPartition
from srm_common.replication.driver.source_view import Listed, SourceView
from srm_common.testing import FakeCluster
from tests.unit.usecases.fakes import TOPIC_AUTHORIZATION_FAILED, Sides


@pytest.fixture
def hanging(sides: Sides) -> Iterator[Producer]:
    """Three records of ``orders`` are copied; the producer ``till`` has a transaction open behind them, and others have
    written since."""
    sides.source.create_topic("orders")
    sides.source.write("orders", [(b"k", b"v")] * 3)
    sides.refresh()
    assert sides.run("first").open_transactions == ()
    producer = Producer({"bootstrap.servers": sides.source.bootstrap_servers, "transactional.id": "till"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("orders", b"open")
    producer.flush(60)
    sides.source.write("orders", [(b"k", b"behind")] * 5)
    yield producer
    producer.abort_transaction(60)


def test_records_behind_an_open_transaction_are_told_of(sides: Sides, hanging: Producer) -> None:
    record = sides.run("second")
    assert (record.state, record.records, record.backlog.most) == (RunState.DONE, 0, 0)
    (found,) = record.open_transactions
    assert (found.place, found.offset, found.end, found.transactional_id) == (("orders", 0), 3, 9, "till")
    assert record.notes == ()
    sides.source.write("orders", [(b"k", b"behind")])
    sides.set(open_transaction_alarm_seconds=0.0)
    record = sides.run("third")
    (again,) = record.open_transactions
    assert (again.since_ms, again.end) == (found.since_ms, 10)
    (note,) = record.notes
    assert note.startswith(
        f"orders-0 cannot be read beyond offset 3 of 10: producer {found.producer_id} ('till') has a transaction open"
    )
    hanging.commit_transaction(60)
    record = sides.run("fourth")
    assert (record.records, record.open_transactions) == (7, ())
    hanging.begin_transaction()


def test_it_is_told_of_also_where_brokers_do_not_say_whose_it_is(sides: Sides, hanging: Producer) -> None:
    sides.source.refuse("DescribeProducers", TOPIC_AUTHORIZATION_FAILED)
    (found,) = sides.run("second").open_transactions
    assert (found.offset, found.producer_id, found.transactional_id) == (3, None, None)
    assert str(found) == "orders-0 cannot be read beyond offset 3 of 9: a producer has a transaction open"


def test_a_run_of_other_topics_forgets_nothing(sides: Sides, hanging: Producer) -> None:
    sides.source.create_topic("orders2")
    sides.refresh()
    known = sides.run("second").open_transactions
    assert known
    assert sides.run("third", topics=("orders2",)).open_transactions == known


def test_a_flow_that_reads_uncommitted_does_not_wait(sides: Sides, hanging: Producer) -> None:
    sides.set(read_committed=False)
    record = sides.run("second")
    assert (record.records, record.open_transactions) == (6, ())


def test_a_source_that_goes_away_at_the_end_spoils_no_run(
    sides: Sides, hanging: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = sides.run("second").open_transactions
    held = SourceView.held

    def gone(source: SourceView, ends: Mapping[TopicPartition, int]) -> Listed:
        sides.source.go_away()
        return held(source, ends)

    monkeypatch.setattr(SourceView, "held", gone)
    record = sides.run("third")
    sides.source.come_back()
    assert (record.state, record.open_transactions) == (RunState.DONE, known)


def test_what_is_known_of_a_partition_without_a_leader_stays_known(target_kafka: FakeCluster) -> None:
    known = OpenTransaction("orders", 1, 0, 1, since_ms=1)
    with FakeCluster(2, name="halves") as source, closing(Sides(source, target_kafka)) as sides:
        sides.impatient()
        source.create_topic("orders", 2)
        sides.refresh()
        first = sides.run("first")
        record = replace(first, open_transactions=(known,))
        sides.clusters().state.write(StateKey.RUN, record.to_json())
        source.stop(2)
        second = sides.run("second")
        assert [one.error is None for one in second.partitions] == [True, False]
        assert second.open_transactions == (known,)
        source.restart(2)
        assert sides.run("third").open_transactions == ()


def test_it_is_told_of_also_where_the_copy_cannot_be_written_to(sides: Sides, hanging: Producer) -> None:
    hanging.commit_transaction(60)
    hanging.begin_transaction()
    hanging.produce("orders", b"open")
    hanging.flush(60)
    with sides.target.refuse("Produce", TOPIC_AUTHORIZATION_FAILED, when="a.orders"):
        assert sides.run("second").state is RunState.FAILED
        record = sides.run("third")
    assert record.backlog.most
    assert [found.transactional_id for found in record.open_transactions] == ["till"]
