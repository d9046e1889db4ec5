"""From what both clusters say to actions and notices; the looking itself is tested on brokers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.domain.access.acls import Copies
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.policy import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from srm_common.domain.topics.selection import TopicDecision
from srm_common.domain.topics.topic_records import TopicRecord, TopicState
from srm_common.usecases.topics.acls import OPEN_UNTIL_FIRST, AclView, copies_of, plan_acls, replicator_principals
from tests.unit.domain.access.test_acls import binding

SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "srm"}
FLOW = FlowSettings(
    FlowName("a", "b"), ClusterSettings.plaintext("a", "h:1"), ClusterSettings("b", "h:2", SASL, {}), enabled=True
)
COPIES = Copies({"orders": "a.orders"})
VIEW = AclView(frozenset({binding("ALLOW READ bob orders")}))


@pytest.mark.parametrize("setting", [None, "true"])
def test_nothing_is_created_that_would_shut_the_replicator_out(setting: str | None) -> None:
    plan = plan_acls(FLOW, VIEW, COPIES, {OPEN_UNTIL_FIRST: setting})
    assert plan.actions == ()
    (notice,) = plan.notices
    assert "the first binding on a.orders would shut the replicator out" in notice
    assert "--topic a.orders --operation Write --allow-principal User:srm" in notice
    granted = replace(VIEW, target=frozenset({binding("ALLOW WRITE srm a.*")}))
    assert len(plan_acls(FLOW, granted, COPIES, {OPEN_UNTIL_FIRST: setting}).actions) == 1
    for harmless in ({}, {OPEN_UNTIL_FIRST: "false"}):
        assert len(plan_acls(FLOW, VIEW, COPIES, harmless).actions) == 1


def test_a_cluster_that_does_not_show_its_bindings_is_an_action_that_fails() -> None:
    ours = frozenset({binding("ALLOW READ eve a.orders")})
    (action,) = plan_acls(FLOW, AclView(ours=ours, target=ours, refused="cluster 'a' refused"), COPIES, {}).actions
    assert (action.kind, action.reason) == ("sync_acls", "cluster 'a' refused")


def test_without_an_authorizer_nothing_of_ours_is_deleted() -> None:
    ours = frozenset({binding("ALLOW READ eve a.orders")})
    plan = plan_acls(FLOW, AclView(source=None, target=ours, ours=ours), COPIES, {})
    assert (plan.actions, plan.notices) == ((), ("no ACLs are synced: a has no authorizer",))
    assert plan_acls(FLOW, AclView(None, None), COPIES, {}).notices == (
        "no ACLs are synced: a and b have no authorizer",
    )


def test_the_replicators_principals() -> None:
    assert replicator_principals(FLOW) == {"User:srm"}
    named = replace(FLOW, acl_replicator_principals=" User:CN=srm,O=x ; User:srm2;")
    assert replicator_principals(named) == {"User:CN=srm,O=x", "User:srm2"}
    unknown = replace(FLOW, target=replace(FLOW.target, confluent={**SASL, "sasl.mechanism": "OAUTHBEARER"}))
    assert replicator_principals(unknown) == frozenset()
    denied = AclView(frozenset({binding("DENY READ eve orders")}))
    (notice,) = plan_acls(unknown, denied, COPIES, {}).notices
    assert "principal on b is unknown; configure it with sync.topic.acls.replicator.principals" in notice


def _record(upstream: str, downstream: str, state: TopicState) -> TopicRecord:
    return TopicRecord("a->b", upstream, downstream, "", "", "", "", "", state, 0)


@pytest.mark.parametrize(
    ("policy", "others"),
    [(DefaultReplicationPolicy(), {"local", "a"}), (IdentityReplicationPolicy(), {"a.unknown", "local", "a"})],
)
def test_copies_are_what_is_copied_and_what_was(policy: ReplicationPolicy, others: set[str]) -> None:
    on_target = {"new", "old", "a.unknown", "local", "a"}
    records = [
        _record("old", "old", TopicState.DELISTED),
        _record("gone", "gone", TopicState.TARGET_DELETED),
        _record("round", "local", TopicState.CUT),
    ]
    found = copies_of(replace(FLOW, policy=policy), [TopicDecision("new", True, "", "new")], records, on_target)
    assert found.topics == {"new": "new", "old": "old"}
    assert found.others == others
