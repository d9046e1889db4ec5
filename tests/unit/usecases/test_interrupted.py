"""Whatever request of a use case is refused, it says so, and once the cluster obliges, a repetition ends where an
undisturbed one does.

Each use case is carried out once to see what it asks; then again for each of these requests, from which on the cluster
refuses that API.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from srm_common.domain.flow import GraphFlow
from srm_common.domain.flow.names import ConnectNames
from srm_common.domain.groups.group_offsets import GroupOffset
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.topic_records import ClusterBinding
from srm_common.errors import SrmError
from srm_common.kafka.client.protocol.codes import TRANSACTIONAL_ID_AUTHORIZATION_FAILED
from srm_common.kafka.state.topic_registry import TopicRegistry
from srm_common.testing import FakeCluster
from srm_common.testing.fake_cluster.faults import Fault
from srm_common.usecases.groups.apply_offsets import apply_offsets
from srm_common.usecases.mirror_maker.handback import HandbackRequest, hand_back
from srm_common.usecases.monitoring.report_run import make_report
from srm_common.usecases.offsets.edit_source_offsets import Request, edit_source_offsets
from srm_common.usecases.offsets.source_offsets import committed_now
from srm_common.usecases.runs.emit_heartbeat import emit_heartbeat
from srm_common.usecases.topics.rebind import rebind
from tests.unit.usecases.fakes import (
    CLUSTER_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
    Sides,
)

PLACE = TopicPartition("orders", 0)
#: Every client asks these before anything else and again elsewhere; the last two leave out what may not be seen.
_NEVER_DENIED = {"ApiVersions", "FindCoordinator", "Metadata", "ListTransactions"}
_OF_TOPICS = {"Fetch", "ListOffsets", "OffsetForLeaderEpoch", "Produce", "CreateTopics", "DescribeConfigs"}
_OF_TRANSACTIONS = {"InitProducerId", "AddPartitionsToTxn", "EndTxn", "DescribeTransactions"}


EVERY_BINDING = AclBindingFilter(
    ResourceType.TOPIC,
    None,  # type: ignore[arg-type]  # any name, principal and host
    ResourcePatternType.ANY,
    None,  # type: ignore[arg-type]
    None,  # type: ignore[arg-type]
    AclOperation.ANY,
    AclPermissionType.ANY,
)


@dataclass(frozen=True)
class Story:
    """A use case. ``act`` returns what its result tells of faults; ``outcome`` is what it is for."""

    prepare: Callable[[Sides], None]
    act: Callable[[Sides], list[str]]
    outcome: Callable[[Sides], object]


def _copied(sides: Sides) -> None:
    sides.source.create_topic("orders")
    sides.source.write("orders", [(b"k", b"%d" % number) for number in range(10)])
    sides.source.commit("billing", {("orders", 0): 4})
    sides.refresh()
    assert sides.run().records == 10


def _with_bindings(sides: Sides) -> None:
    sides.set(sync_topic_acls=True)
    sides.source.create_topic("orders")
    bindings = [
        AclBinding(
            ResourceType.TOPIC,
            "orders",
            ResourcePatternType.LITERAL,
            f"User:{name}",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        for name in ("ann", "bob")
    ]
    for answer in sides.source.admin().create_acls(bindings).values():
        answer.result()


def _refreshed(sides: Sides) -> list[str]:
    return [str(result.error) for result in sides.refresh().results if result.error is not None]


def _readers(sides: Sides) -> object:
    bound = sides.target.admin().describe_acls(EVERY_BINDING).result()
    return sides.target.topics().get("a.orders"), sorted((one.name, one.principal) for one in bound)


def _applied(sides: Sides) -> list[str]:
    applied = apply_offsets(sides.flow.target, [GroupOffset("billing", "a.orders", 0, 7)])
    return [offset.problem for offset in applied if offset.problem is not None]


def _edited(sides: Sides) -> list[str]:
    edits = edit_source_offsets(sides.flow, Request("set", offsets={PLACE: 3}))
    return [edit.problem for edit in edits if edit.problem is not None]


def _beating(sides: Sides) -> None:
    sides.set(emit_heartbeats=True)


def _beaten(sides: Sides) -> list[str]:
    emit_heartbeat(sides.flow)
    return []


def _bound_to_another(sides: Sides) -> None:
    _copied(sides)
    with TopicRegistry(sides.flow.target) as registry:
        registry.write((), [ClusterBinding("a", "another-cluster", 1)])


def _rebound(sides: Sides) -> list[str]:
    flow = sides.flow
    rebind([GraphFlow.of(flow.name, flow.policy, flow.source, flow.target)], "a")
    return []


def _bound(sides: Sides) -> object:
    with TopicRegistry(sides.flow.target) as registry:
        return registry.read().bindings["a"].cluster_id == sides.source.cluster_id


def _handed_back(sides: Sides) -> list[str]:
    handback = hand_back(sides.flow, HandbackRequest(ConnectNames.dedicated(sides.flow.name)))
    return [str(obstacle) for obstacle in handback.obstacles]


def _mirror_makers_offsets(sides: Sides) -> object:
    names = ConnectNames.dedicated(sides.flow.name)
    partitions = range(sides.target.topics().get(names.offsets_topic, 0))
    records = [record for number in partitions for record in sides.target.records(names.offsets_topic, number)]
    return {record.key: record.value for record in records}


def _reported(sides: Sides) -> list[str]:
    report = make_report(sides.flow, "r")
    return [*report.warnings, *([report.fault] if report.fault is not None else [])]


def _measured(sides: Sides) -> object:
    report = make_report(sides.flow, "r")
    return report.run is not None, report.groups


STORIES = {
    "topics-and-acls": Story(_with_bindings, _refreshed, _readers),
    "apply-offsets": Story(_copied, _applied, lambda sides: sides.target.committed("billing")),
    "source-offsets": Story(_copied, _edited, lambda sides: committed_now(sides.flow)),
    "heartbeat": Story(_beating, _beaten, lambda sides: "heartbeats" in sides.target.topics()),
    "rebind": Story(_bound_to_another, _rebound, _bound),
    "hand-back": Story(_copied, _handed_back, _mirror_makers_offsets),
    "report": Story(_copied, _reported, _measured),
}


@contextmanager
def _prepared(story: Story) -> Iterator[Sides]:
    with (
        FakeCluster(name="a", authorizer=True) as source,
        FakeCluster(name="b", authorizer=True) as target,
        closing(Sides(source, target)) as sides,
    ):
        sides.set(admin_timeout_ms=20_000)
        story.prepare(sides)
        sides.close()
        for kafka in (source, target):
            kafka.forget_requests()
        yield sides


@pytest.mark.parametrize("name", STORIES)
def test_whatever_is_refused(name: str) -> None:
    story = STORIES[name]
    with _prepared(story) as sides:
        assert story.act(sides) == []
        asked = {
            which: Counter(call.api for call in kafka.requests if call.api not in _NEVER_DENIED)
            for which, kafka in (("source", sides.source), ("target", sides.target))
        }
        sides.close()
        wanted = story.outcome(sides)
    assert asked["source"] + asked["target"]
    refused = 0
    for which, counts in asked.items():
        for api, count in counts.items():
            for before in sorted({0, 1, count // 2, count - 1} & set(range(count))):
                refused += _refused(story, wanted, which, api, before)
    assert refused, "nothing that was refused was told"


def _denial(api: str) -> int:
    """The code by which brokers deny an API."""
    if api in _OF_TRANSACTIONS:
        return TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if api in _OF_TOPICS:
        return TOPIC_AUTHORIZATION_FAILED
    return GROUP_AUTHORIZATION_FAILED if "Group" in api or "Offset" in api else CLUSTER_AUTHORIZATION_FAILED


def _refused(story: Story, wanted: object, which: str, api: str, before: int) -> bool:
    """Whether it was told that the cluster refuses all but the first requests of an API."""
    what = f"{api} of the {which} after {before}"
    with _prepared(story) as sides:
        refusing: FakeCluster = getattr(sides, which)
        refusals: list[Fault] = []

        def refuse() -> None:
            refusals.append(refusing.refuse(api, _denial(api)))

        if before:
            refusing.after(before, api).do(refuse)
        else:
            refuse()
        told = ""
        try:
            told = "; ".join(story.act(sides))
        except SrmError as error:
            told = str(error)
            assert told, what
        sides.close()
        for refusal in refusals:
            refusal.end()
        # What was left open is over.
        for kafka in (sides.source, sides.target):
            kafka.clock.advance(60.0)
        assert story.act(sides) == [], what
        sides.close()
        assert story.outcome(sides) == wanted, f"{what}: {told}"
    return bool(told)
