"""Three scenarios in every world: a first run, deaths on the way, and groups that move to the target and back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition

from srm_common.domain.moving.moves import MoveKind, MoveMode, MoveRequest, PositionReport
from srm_common.kafka.groups.group_offsets import GroupReader
from srm_common.testing import LocalKafka
from srm_common.usecases.moving.failover import Move, failback
from tests.faults.live_groups import copy_once, run_once
from tests.faults.scenario import LONG, SOURCE, TARGET, Scenario
from tests.kafka.group_commits import commit
from tests.kafka.records import mixed_records, produce, put, read_all, writer
from tests.worlds.awkward import AwkwardSource, Comparison
from tests.worlds.world import Side, World
from tests.worlds.worlds import EQUALITY, FAILOVER, KILLS, WORLDS

pytestmark = [pytest.mark.faults, pytest.mark.kafka]

PARTITIONS = 3


def everywhere(scenario: str) -> pytest.MarkDecorator:
    """In every world. The scenarios of one world share its brokers, so they run one after another (conftest.py)."""
    worlds = [
        pytest.param(name, id=name, marks=[pytest.mark.soak] if scenario in entrance.soak else [])
        for name, entrance in WORLDS.items()
    ]
    return pytest.mark.parametrize("world", worlds, indirect=True)


@everywhere(EQUALITY)
def test_a_first_run_and_what_comes_later_are_equal(world: World, name: str) -> None:
    source = AwkwardSource(world, name)
    source.write()
    flow = world.flow(name)
    first = run_once(flow)
    assert (str(first.state), first.error) == ("done", None), first.to_json()
    assert not [partition.error for partition in first.partitions if partition.error]
    comparison = Comparison(world, flow)
    records = comparison.check_all(source)
    source.write_more()
    second = run_once(flow)
    assert (str(second.state), second.error) == ("done", None), second.to_json()
    assert comparison.check_all(source) == records + second.records
    assert run_once(flow).records == 0
    assert world.proved()


@everywhere(KILLS)
def test_a_run_dies_and_a_broker_dies(world: World, scenario: Callable[..., Scenario]) -> None:
    one = scenario(
        world.source.kafka,
        world.target.kafka,
        clusters=(world.source.cluster(SOURCE), world.target.cluster(TARGET)),
        topic_settings=world.topics,
        # However long a broker of many partitions takes to come back.
        **{"retry_timeout_seconds": LONG, **world.settings},
    )
    if world.beside:
        one.set(topics=(*one.flow.topics, *world.beside))
        one.refresh_topics()
    with one.writing(rate=world.records_a_second):
        first = one.start_run(LONG)
        one.wait_for_copied(first)
        first.kill_driver()  # its workers live on as orphans
        one.note(f"the driver was killed, {one.copied_offsets()} offsets copied")
        second = one.start_run(LONG, until_copying=True)
        one.wait_for_copied(second, one.copied_offsets() + 200)
        for side in world.may_be_killed:
            _kill_a_broker(one, side)
            one.wait_for_copied(second, one.copied_offsets() + 200)
    one.wait_until_caught_up(second)
    second.kill_all()
    one.last_run()
    assert one.verify() > 0


def _kill_a_broker(scenario: Scenario, side: Side) -> None:
    kafka = side.kafka
    node = scenario.dice.choice(kafka.nodes)
    kafka.kill(node)
    scenario.note(f"node {node} of {kafka.name} was killed")
    scenario.pause(0.5, 2.0)
    kafka.restart(node)
    scenario.note("and is back")


@everywhere(FAILOVER)
def test_groups_move_to_the_target_and_back(world: World, name: str) -> None:
    source, target = world.source.kafka, world.target.kafka
    group = f"{name}-g"
    flow = world.flow(name, groups=(group,))
    copy = f"{flow.name.source}.{name}"
    world.create(name, PARTITIONS)
    _write_with_gaps(source, name)
    world.ready(name)
    assert str(run_once(flow).state) == "done"

    # Somewhere in the middle, at the very beginning, and at the end.
    upstream = {partition: [placed.offset for placed in found] for partition, found in read_all(source, name).items()}
    places = {0: upstream[0][len(upstream[0]) // 2], 1: upstream[1][0], 2: upstream[2][-1] + 1}
    commit(source, group, *(TopicPartition(name, partition, offset) for partition, offset in places.items()))

    request = MoveRequest(MoveKind.FAILOVER, MoveMode.CONTROLLED, (group,))
    _carry_out(Move(flow, request, copy_once))
    there = _positions(world.target, group)
    assert there.keys() == {(copy, partition) for partition in range(PARTITIONS)}
    _assert_same_rest(source, name, places, target, copy, {place[1]: offset for place, offset in there.items()})

    # The group reads on there, and goes home.
    downstream = {partition: [placed.offset for placed in found] for partition, found in read_all(target, copy).items()}
    reached = {0: downstream[0][-7], 1: downstream[1][len(downstream[1]) // 3], 2: there[copy, 2]}
    commit(target, group, *(TopicPartition(copy, partition, offset) for partition, offset in reached.items()))
    home = MoveRequest(MoveKind.FAILBACK, MoveMode.CONTROLLED, (group,), dry_run=not world.writable_source)
    reports = _carry_out(failback(flow, None, home))
    if world.writable_source:
        back = {place[1]: offset for place, offset in _positions(world.source, group).items() if place[0] == name}
    else:
        # What would be set: who may only read the source sets it by other means.
        back = {report.partition: report.applied for report in reports if report.applied is not None}
    _assert_same_rest(source, name, back, target, copy, reached)

    # The flow goes on as if nothing had happened.
    _write_with_gaps(source, name)
    assert str(run_once(flow).state) == "done"
    assert Comparison(world, flow).check(name) > 0


def _write_with_gaps(kafka: LocalKafka, topic: str) -> None:
    """Offsets of the copy are others than those of the source: markers and aborted records are not copied."""
    producer = writer(kafka, transactional_id=f"{topic}-writer", linger_ms=1)
    producer.init_transactions(120)
    for number in range(6):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            put(producer, topic, partition, mixed_records(25 + 10 * partition, number, 100))
        producer.flush(120)
        if number % 3 == 1:
            producer.abort_transaction(120)
        else:
            producer.commit_transaction(120)
    for partition in range(PARTITIONS):
        produce(kafka, topic, partition, mixed_records(40, partition, 100))


def _carry_out(move: Move) -> tuple[PositionReport, ...]:
    for step in move.report.request.steps:
        result = move.run(step)
        print(f"{(result.ended_ms - result.started_ms) / 1000:.1f} s: {result.render()}")
        assert not result.failed, result.render()
    return move.report.positions


def _positions(side: Side, group: str) -> dict[tuple[str, int], int]:
    (offsets,) = GroupReader(side.cluster("side")).offsets([group])[0]
    return {place: at.offset for place, at in offsets.offsets.items()}


def _assert_same_rest(
    source: LocalKafka, topic: str, upstream: dict[int, int], target: LocalKafka, copy: str, downstream: dict[int, int]
) -> None:
    """From these positions on both sides have the same records, so nothing is skipped and nothing read again."""
    left, right = read_all(source, topic), read_all(target, copy)
    assert upstream.keys() == downstream.keys() == left.keys()
    for partition, placeds in left.items():
        rest = [placed.seen for placed in placeds if placed.offset >= upstream[partition]]
        there = [placed.seen for placed in right[partition] if placed.offset >= downstream[partition]]
        assert len(rest) == len(there), f"partition {partition}: {len(rest)} records are left, {len(there)} there"
        assert rest == there, f"partition {partition} goes on with other records"
