"""Circles and records that would come twice, under every policy: vectors, and as a property of random graphs."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srm_common.domain.flow.start_position import parse_topic_starts
from srm_common.domain.policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    MigratingReplicationPolicy,
    ReplicationPolicy,
)
from srm_common.domain.topics.selection import select_topics
from srm_common.domain.topics.topic_records import Knowledge, TopicState
from tests.examples import examples
from tests.unit.domain.simulated_flows import SimulatedFlows

IDENTITY = IdentityReplicationPolicy


class Suffixed(DefaultReplicationPolicy):
    """A policy of a user's own whose names tell nothing to :func:`is_cycle`."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{topic}-of-{source_alias}"

    def topic_source(self, topic: str) -> str | None:
        return None

    def upstream_topic(self, topic: str) -> str | None:
        return topic.rpartition("-of-")[0] or None


class Capped(IdentityReplicationPolicy):
    """Gives a topic of any cluster one of few names, and does not know the way back."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return topic[:1]

    def upstream_topic(self, topic: str) -> str | None:
        return None


PREFIXLESS = [IDENTITY, MigratingReplicationPolicy, Capped]
POLICIES: list[type[ReplicationPolicy]] = [DefaultReplicationPolicy, Suffixed, *PREFIXLESS]


def mesh(aliases: str) -> list[str]:
    return [f"{source}->{target}" for source, target in permutations(aliases, 2)]


# ---- vectors


@pytest.mark.parametrize("policy", PREFIXLESS)
def test_there_and_back(policy: type[ReplicationPolicy]) -> None:
    world = SimulatedFlows("ab")
    world.connect("a->b", "b->a", policy=policy)
    world.write("a", "t", 3)
    world.run()
    world.check()
    assert world.copied() == {"a->b:t"}
    refused = world.refusals("b->a")["t"]
    assert refused.code == "cycle"
    assert refused.reason == "it would form a loop: a -> b -> a; it has records of t on a"


def test_a_topic_goes_out_from_wherever_it_was_made() -> None:
    world = SimulatedFlows("ab")
    world.connect(*mesh("ab"), policy=IDENTITY)
    world.write("a", "of-a")
    world.write("b", "of-b")
    world.run("b->a", "a->b")
    world.check()
    assert world.copied() == {"a->b:of-a", "b->a:of-b"}


@pytest.mark.parametrize("first", mesh("ab"))
def test_a_topic_that_is_on_both_sides_goes_by_the_flow_that_comes_first(first: str) -> None:
    world = SimulatedFlows("ab")
    world.connect(*mesh("ab"), policy=IDENTITY)
    world.write("a", "t")
    world.write("b", "t")
    other = "b->a" if first == "a->b" else "a->b"
    world.run(first, other)
    world.check()
    assert world.copied() == {f"{first}:t"}


@pytest.mark.parametrize("order", [("a->b", "b->a"), ("b->a", "a->b")])
def test_two_flows_that_claim_at_the_same_moment_go_by_the_order_of_the_file(order: tuple[str, str]) -> None:
    world = SimulatedFlows("ab")
    world.connect(*mesh("ab"), policy=IDENTITY)
    world.write("a", "t")
    world.write("b", "t")
    for step in (world.plan, world.claim, world.settle):
        for name in order:
            step(name)
    assert world.copied() <= {"a->b:t"}
    world.run()
    world.check()
    assert world.copied() == {"a->b:t"}


def test_the_claim_of_a_flow_that_was_stopped_is_respected_for_a_while_only() -> None:
    world = SimulatedFlows("ab")
    world.connect(*mesh("ab"), policy=IDENTITY)
    world.write("a", "t")
    world.write("b", "t")
    world.plan("b->a")
    world.claim("b->a")
    world.claims.clear()
    world.refresh("a->b")
    assert world.copied() == set()
    world.now_ms += 100_000
    world.run("a->b")
    assert world.copied() == {"a->b:t"}
    world.run()
    world.check()


@pytest.mark.parametrize("policy", PREFIXLESS)
def test_a_ring(policy: type[ReplicationPolicy]) -> None:
    world = SimulatedFlows("abc")
    world.connect("a->b", "b->c", "c->a", policy=policy)
    for alias in "abc":
        world.write(alias, f"{alias}-t", 2)
    world.run()
    world.check()
    refused = world.refusals("c->a")
    code = {topic: one.code for topic, one in refused.items()}
    topic = "a" if policy is Capped else "a-t"
    assert code[topic] == "cycle"
    assert "a -> b -> c -> a" in refused[topic].reason
    # Each topic has gone all the way round, and stopped before the cluster where it was made.
    assert all(len(topics) >= 3 for topics in world.topics.values())


def test_a_ring_of_topics_that_exist_everywhere_is_cut_once() -> None:
    world = SimulatedFlows("abc")
    world.connect("a->b", "b->c", "c->a", policy=IDENTITY)
    for alias in "abc":
        world.write(alias, "t")
    world.run("c->a", "b->c", "a->b")
    world.check()
    assert world.copied() == {"c->a:t", "b->c:t"}


@pytest.mark.parametrize("aliases", ["abc", "abcd"])
def test_a_full_mesh(aliases: str) -> None:
    for policy in (DefaultReplicationPolicy, IDENTITY):
        world = SimulatedFlows(aliases)
        world.connect(*mesh(aliases), policy=policy)
        for alias in aliases:
            world.write(alias, f"{alias}-t", 2)
        world.run()
        world.check()
        for alias in aliases:
            for origin in set(aliases) - {alias}:
                name = f"{origin}-t" if policy is IDENTITY else f"{origin}.{origin}-t"
                assert len(world.topics[alias][name]) == 2


def test_a_diamond() -> None:
    world = SimulatedFlows("abcd")
    world.connect("a->b", "a->c", "b->d", "c->d", policy=IDENTITY)
    world.write("a", "t", 5)
    world.run()
    world.check()
    assert len(world.topics["d"]["t"]) == 5
    refused = world.refusals("c->d")["t"]
    assert refused.code == "diamond"
    assert refused.reason == (
        "t on d gets the records of t on a by a -> b -> d already; by a -> c -> d they would arrive twice"
    )


def test_a_diamond_is_no_diamond_where_each_way_has_a_name_of_its_own() -> None:
    world = SimulatedFlows("abcd")
    world.connect("a->b", "a->c", "b->d", "c->d")
    world.write("a", "t", 5)
    world.run()
    world.check()
    assert len(world.topics["d"]["b.a.t"]) == len(world.topics["d"]["c.a.t"]) == 5


def test_a_diamond_that_closes_above_is_found_by_asking_below() -> None:
    world = SimulatedFlows("abcd")
    world.connect("b->d", "c->d", "a->b", "a->c", policy=IDENTITY)
    world.write("b", "t")
    world.write("c", "t")
    world.run("b->d", "c->d")
    assert len(world.topics["d"]["t"]) == 2
    world.write("a", "t")
    world.run("a->b", "a->c")
    world.check()
    assert world.copied() == {"b->d:t", "c->d:t", "a->b:t"}
    assert world.refusals("a->c")["t"].code == "diamond"
    world.run()
    world.check()


def test_while_a_cluster_is_down_only_what_may_go_wrong_waits() -> None:
    world = SimulatedFlows("abc")
    world.connect("a->b", "b->c", "c->a", policy=IDENTITY)
    for alias in "abc":
        world.write(alias, "t")
    world.run("c->a")
    world.down = {"c"}
    world.write("a", "new")
    world.run()
    # Whether b->c has begun to copy t meanwhile is recorded on c alone.
    assert world.copied() == {"c->a:t", "a->b:new"}
    refused = world.refusals("a->b")["t"]
    assert refused.code == "undecided"
    assert "because the records of c are not known (c: it is down); the next refresh checks again" in refused.reason
    world.down = set()
    world.run()
    world.check()
    assert "a->b:t" in world.copied()


def test_a_source_whose_records_may_not_be_read_stops_only_what_may_go_wrong() -> None:
    world = SimulatedFlows("ab")
    world.connect(*mesh("ab"), policy=IDENTITY)
    world.write("a", "new")
    world.write("a", "both")
    world.write("b", "both")
    flow = world.flows["a->b"]
    knowledge = Knowledge("id-a", "id-b", {"b": world.records["b"]}, {"a": "no right"}, world.topics["b"].keys())
    decisions = {topic.topic: topic for topic in select_topics(flow, world.topics["a"], knowledge)}
    assert decisions["new"].accepted
    assert decisions["both"].code == "undecided"
    assert "the records of a are not known (a: no right)" in decisions["both"].reason
    alone = replace(flow, graph=flow.graph[:1])
    assert all(topic.accepted for topic in select_topics(alone, world.topics["a"], knowledge))


def test_fan_in_of_different_topics_into_one_is_what_identity_is_for() -> None:
    world = SimulatedFlows("abz")
    world.connect("a->z", "b->z", policy=IDENTITY)
    world.write("a", "t", 2)
    world.write("b", "t", 3)
    world.run()
    world.check()
    assert len(world.topics["z"]["t"]) == 5


def test_direction_is_turned_round_by_ending_the_one_flow_and_starting_the_other_behind_it() -> None:
    world = SimulatedFlows("ab")
    world.connect("a->b", policy=IDENTITY)
    world.write("a", "t", 3)
    world.run()
    del world.flows["a->b"]
    world.connect("b->a", policy=IDENTITY)
    assert world.refusals("b->a")["t"].code == "cycle"
    world.connect("b->a", policy=IDENTITY, start_positions=parse_topic_starts(".*=opposite"))
    world.offsets["b->a", "t"] = 3
    world.write("b", "t", 2)
    world.run()
    world.check()
    assert len(world.topics["a"]["t"]) == 5
    record = world.records["a"].find("b->a", "t")
    assert record is not None
    assert [str(ancestor) for ancestor in record.lineage] == ["t on b"]
    # For a second time too; a run refuses to go on where it stopped, in front of what came back.
    del world.flows["b->a"]
    world.connect("a->b", policy=IDENTITY)
    assert world.refusals("a->b")["t"].code == "cycle"
    world.connect("a->b", policy=IDENTITY, start_positions=parse_topic_starts(".*=opposite"))
    world.offsets["a->b", "t"] = 5
    world.write("a", "t", 4)
    world.run()
    world.check()
    assert len(world.topics["b"]["t"]) == 9


def test_both_directions_at_once_are_a_circle_wherever_they_start() -> None:
    world = SimulatedFlows("ab")
    world.connect(*mesh("ab"), policy=IDENTITY, start_positions=parse_topic_starts(".*=opposite"))
    world.write("a", "t")
    world.run()
    world.check()
    assert world.refusals("b->a")["t"].code == "cycle"


def test_the_lineage_follows_what_is_copied_further() -> None:
    world = SimulatedFlows("abcd")
    world.connect("a->b", "b->c", "c->d")
    world.write("a", "t")
    world.run()
    record = world.records["d"].find("c->d", "b.a.t")
    assert record is not None
    assert [str(ancestor) for ancestor in record.lineage] == ["b.a.t on c", "a.t on b", "t on a"]
    assert {ancestor.cluster_id for ancestor in record.lineage} == {"id-a", "id-b", "id-c"}


def test_flows_of_files_that_do_not_know_each_other_stop_at_the_newer_one() -> None:
    world = SimulatedFlows("abc")
    world.connect("a->b", "b->c", "c->a", policy=IDENTITY)
    world.flows = {name: replace(flow, graph=()) for name, flow in world.flows.items()}
    for alias in "abc":
        world.write(alias, "t")
    # The last one to begin cannot know yet that the first one's upstream topic has got a source of its own meanwhile.
    world.refresh("b->c", "a->b", "c->a")
    assert world.copied() == {"a->b:t", "b->c:t", "c->a:t"}
    for _ in range(4):
        world.refresh(*world.flows)
    states = {record.flow: record.state for records in world.records.values() for record in records.topics.values()}
    assert set(states.values()) == {TopicState.REPLICATING, TopicState.CUT}
    for _ in range(4):
        world.refresh(*world.flows)
        assert states == {
            record.flow: record.state for records in world.records.values() for record in records.topics.values()
        }


# ---- property


@st.composite
def worlds(draw: st.DrawFn) -> SimulatedFlows:
    aliases = "abcdef"[: draw(st.integers(2, 6))]
    world = SimulatedFlows(aliases)
    one_for_all = draw(st.sampled_from([*POLICIES, None]))
    for name in draw(st.lists(st.sampled_from(mesh(aliases)), unique=True, min_size=1, max_size=14)):
        policy = one_for_all or draw(st.sampled_from(POLICIES))
        topics = draw(st.sampled_from([(".*",), (".*",), ("t.*",), (".*t.*", "u"), ()]))
        world.connect(name, policy=policy, topics=topics)
    for _ in range(draw(st.integers(1, 8))):
        world.write(draw(st.sampled_from(aliases)), draw(st.sampled_from(["t", "u", "tt", "a.t", "b.u"])))
    return world


@given(worlds(), st.data())
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_copying_ends_and_no_record_comes_back_or_twice(world: SimulatedFlows, data: st.DataObject) -> None:
    flows = st.sampled_from(sorted(world.flows))
    for _ in range(data.draw(st.integers(0, 40))):
        step = data.draw(
            st.sampled_from(["plan", "claim", "claim", "settle", "settle", "copy", "refresh", "write", "down"])
        )
        if step == "write":
            alias = data.draw(st.sampled_from(world.aliases))
            world.write(alias, data.draw(st.sampled_from(["t", "u", "v"])))
        elif step == "down":
            world.down = data.draw(st.sets(st.sampled_from(world.aliases), max_size=1))
        else:
            getattr(world, step)(data.draw(flows))
        world.check()
    world.down = set()
    world.run()
    world.check()
