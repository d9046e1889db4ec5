"""From what both clusters say to actions and notices, and clusters that do not say it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from srm_common.domain.access.acl_bindings import AclBinding
from srm_common.domain.access.acl_changes import CreateAcls, DeleteAcls, UnknownAcls
from srm_common.domain.access.copied_acls import Copies
from srm_common.domain.cluster import ClusterSettings, JavaStore
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.policy import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from srm_common.domain.topics.selection import TopicDecision
from srm_common.domain.topics.topic_records import TopicRecord, TopicState
from srm_common.settings_files.connections.own_certificate import ConfiguredCertificate
from srm_common.testing import FakeCluster
from srm_common.usecases.topics.acls import (
    OPEN_UNTIL_FIRST,
    AclPlan,
    AclView,
    copies_of,
    plan_acls,
    replicator_principals,
)
from tests.unit.domain.access.test_acl_bindings import binding
from tests.unit.usecases.fakes import Sides

SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "srm"}
FLOW = FlowSettings(
    FlowName("a", "b"), ClusterSettings.plaintext("a", "h:1"), ClusterSettings("b", "h:2", SASL, {}), enabled=True
)
COPIES = Copies({"orders": "a.orders"})
VIEW = AclView(frozenset({binding("ALLOW READ bob orders")}))


@pytest.mark.parametrize("setting", [None, "true"])
def test_nothing_is_created_that_would_shut_the_replicator_out(setting: str | None) -> None:
    (unknown,) = plan_acls(FLOW, VIEW, COPIES, {OPEN_UNTIL_FIRST: setting}).actions
    assert isinstance(unknown, UnknownAcls)
    assert ("without showing its value; if it is true," in unknown.reason) == (setting is None)
    assert "the first one on a.orders would shut the replicator out" in unknown.reason
    assert "--topic a.orders --operation Write --allow-principal User:srm" in unknown.reason
    granted = replace(VIEW, target=frozenset({binding("ALLOW WRITE srm a.*")}))
    closed = replace(VIEW, target=frozenset({binding("ALLOW READ eve a.*")}))
    for flow, view, settings in (
        (FLOW, granted, {OPEN_UNTIL_FIRST: setting}),
        (FLOW, closed, {OPEN_UNTIL_FIRST: setting}),
        (replace(FLOW, acl_replicator_superuser=True), VIEW, {OPEN_UNTIL_FIRST: setting}),
        (FLOW, VIEW, {}),
        (FLOW, VIEW, {OPEN_UNTIL_FIRST: "false"}),
    ):
        assert [type(action) for action in plan_acls(flow, view, COPIES, settings).actions] == [CreateAcls]


def test_what_is_revoked_goes_though_nothing_can_be_created() -> None:
    """Except where a copy without any binding would be open to everyone."""
    made = {binding(f"ALLOW READ bob a.{topic}") for topic in ("one", "two")} | {binding("DENY READ bob a.two")}
    view = AclView(
        frozenset({binding("ALLOW READ bob orders")}),
        frozenset({*made, binding("ALLOW READ eve a.two")}),
        frozenset(made),
    )
    copies = Copies({name: f"a.{name}" for name in ("one", "two", "orders")})
    revoked, unknown = plan_acls(FLOW, view, copies, {OPEN_UNTIL_FIRST: None}).actions
    assert isinstance(revoked, DeleteAcls)
    assert revoked.bindings == (binding("ALLOW READ bob a.two"),)
    assert isinstance(unknown, UnknownAcls)


def test_a_cluster_that_does_not_show_its_bindings_is_an_action_that_fails() -> None:
    ours = frozenset({binding("ALLOW READ eve a.orders")})
    (action,) = plan_acls(FLOW, AclView(ours=ours, target=ours, refused="cluster 'a' refused"), COPIES, {}).actions
    assert (action.kind, action.reason) == ("sync_acls", "cluster 'a' refused")


_UNSUPPORTED_VERSION, _UNKNOWN_SERVER_ERROR, _CLUSTER_AUTHORIZATION_FAILED = 35, -1, 31


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("answers", [False, True])
def test_a_server_without_acls_is_a_note_and_topics_go_on(side: str, answers: bool) -> None:
    """Some list the request among theirs and do not know it all the same."""
    newest = {which: {"DescribeAcls": -1} if which == side and not answers else {} for which in ("source", "target")}
    with (
        FakeCluster(authorizer=True, newest=newest["source"]) as source,
        FakeCluster(authorizer=True, newest=newest["target"]) as target,
        closing(Sides(source, target)) as sides,
    ):
        if answers:
            getattr(sides, side).refuse("DescribeAcls", _UNSUPPORTED_VERSION)
        source.create_topic("orders")
        sides.set(sync_topic_acls=True)
        refreshed = sides.refresh()
        assert [str(result) for result in refreshed.results if result.error is not None] == []
        assert refreshed.plan is not None
        (notice,) = refreshed.plan.notices
        alias = "a" if side == "source" else "b"
        assert notice.startswith(f"no ACLs are synced: cluster '{alias}'")
        assert "has no API for ACLs (DescribeAcls); set sync.topic.acls.enabled = false" in notice
        assert "a.orders" in target.topics()


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("code", [_UNKNOWN_SERVER_ERROR, _CLUSTER_AUTHORIZATION_FAILED])
def test_acls_that_are_not_described_fail_alone(side: str, code: int) -> None:
    with (
        FakeCluster(authorizer=True) as source,
        FakeCluster(authorizer=True) as target,
        closing(Sides(source, target)) as sides,
    ):
        getattr(sides, side).refuse("DescribeAcls", code)
        source.create_topic("orders")
        sides.set(sync_topic_acls=True)
        (failed,) = [result for result in sides.refresh().results if result.error is not None]
        assert failed.action.kind == "sync_acls"
        assert "set sync.topic.acls.enabled = false" in str(failed.error)
        assert ("could not describe its ACLs: UNKNOWN (-1)" in str(failed.error)) == (code == _UNKNOWN_SERVER_ERROR)
        source.write("orders", [(b"k", b"v")])
        assert sides.run().records == 1


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
    by_certificate = ConfiguredCertificate(store=JavaStore("/own.jks"))
    tls = replace(FLOW.target, confluent={"security.protocol": "SSL"}, own_certificate=by_certificate)
    assert replicator_principals(replace(FLOW, target=tls)) == frozenset()


def _bindings(plan: AclPlan) -> set[AclBinding]:
    """All that are created or deleted."""
    return {
        acl_binding for action in plan.actions if not isinstance(action, UnknownAcls) for acl_binding in action.bindings
    }


@pytest.mark.parametrize("writer", ["ALLOW WRITE CN=srm a.*", "ALLOW ALL * a.orders"])
def test_an_unknown_replicator_is_not_denied(writer: str) -> None:
    """It is among those who may write to copies; only their DENYs are left out."""
    unknown = replace(FLOW, target=replace(FLOW.target, confluent={**SASL, "sasl.mechanism": "OAUTHBEARER"}))
    view = AclView(
        frozenset({binding("DENY ALL CN=srm orders"), binding("DENY READ eve orders")}), frozenset({binding(writer)})
    )
    plan = plan_acls(unknown, view, COPIES, {})
    made = {acl_binding.principal for acl_binding in _bindings(plan)}
    assert made == (set() if " * " in writer else {"User:eve"})
    assert any(
        "of a is not carried over to User:CN=srm, which may write to copies" in notice for notice in plan.notices
    )
    named = plan_acls(replace(unknown, acl_replicator_principals="User:x"), view, COPIES, {})
    assert {acl_binding.principal for acl_binding in _bindings(named)} == {"User:eve", "User:CN=srm"}


def test_a_deny_that_a_flow_made_for_its_own_replicator_is_taken_back() -> None:
    ours = frozenset({binding("DENY WRITE CN=srm a.orders")})
    unknown = replace(FLOW, target=replace(FLOW.target, confluent={**SASL, "sasl.mechanism": "OAUTHBEARER"}))
    there = ours | {binding("ALLOW WRITE CN=srm a.*")}
    plan = plan_acls(unknown, AclView(frozenset({binding("DENY WRITE CN=srm orders")}), there, ours), COPIES, {})
    assert [action.kind for action in plan.actions] == ["delete_acls"]
    assert _bindings(plan) == ours


def _record(upstream: str, downstream: str, state: TopicState) -> TopicRecord:
    return TopicRecord("a->b", upstream, downstream, "", "", "", "", "", state, 0)


@pytest.mark.parametrize(
    ("policy", "others"),
    [
        (DefaultReplicationPolicy(), {"local", "a", "a.payroll", "a.own.internal"}),
        (
            IdentityReplicationPolicy(),
            {"a.unknown", "local", "a", "a.payroll", "a.own.internal", "a.checkpoints.internal"},
        ),
    ],
)
def test_copies_are_what_is_copied_and_what_was(policy: ReplicationPolicy, others: set[str]) -> None:
    on_target = {"new", "old", "a.unknown", "local", "a", "a.payroll", "a.own.internal"}
    on_target |= {"a.checkpoints.internal", "a.heartbeats"}
    records = [
        _record("old", "old", TopicState.DELISTED),
        _record("gone", "gone", TopicState.TARGET_DELETED),
        _record("round", "local", TopicState.CUT),
    ]
    accepted = [TopicDecision("new", True, "", "new")]
    copies = copies_of(replace(FLOW, policy=policy), accepted, records, on_target, {"new", "old", "unknown"})
    assert copies.topics == {"new": "new", "old": "old"}
    assert copies.others == others


def test_readers_of_all_topics_read_no_topic_of_the_targets_own() -> None:
    """An alias may be a prefix of names there."""
    copied = [TopicDecision(topic, True, "", f"a.{topic}") for topic in ("orders", "prices")]
    view = replace(VIEW, source=frozenset({binding("ALLOW READ bob *"), binding("ALLOW READ eve pr*")}))
    there = {"a.orders", "a.prices", "a.payroll"}
    plan = plan_acls(FLOW, view, copies_of(FLOW, copied, (), there, {"orders", "prices"}), {})
    assert {str(one) for action in plan.actions if isinstance(action, CreateAcls) for one in action.bindings} == {
        str(binding(f"ALLOW READ {who}")) for who in ("bob a.orders", "bob a.prices", "eve a.pr*")
    }


def test_a_binding_is_not_deleted_before_others_have_taken_its_place() -> None:
    with (
        FakeCluster(authorizer=True) as source,
        FakeCluster(authorizer=True) as target,
        closing(Sides(source, target)) as sides,
    ):
        source.create_topic("orders")
        sides.set(sync_topic_acls=True)
        sides.clusters().source.acls.create([binding("ALLOW READ bob *"), binding("ALLOW READ eve orders")])
        sides.refresh()
        reader = sides.clusters().target.acls.topic_bindings
        assert reader() == frozenset({binding("ALLOW READ bob a.*"), binding("ALLOW READ eve a.orders")})
        target.create_topic("a.own")
        sides.clusters().source.acls.delete([binding("ALLOW READ eve orders")])
        refused = target.refuse("CreateAcls", _CLUSTER_AUTHORIZATION_FAILED)
        failed = [str(result) for result in sides.refresh().results if result.error is not None]
        assert len(failed) == 2
        assert "left as it is, because what takes its place could not be created" in failed[1]
        assert reader() == frozenset({binding("ALLOW READ bob a.*")})
        refused.end()
        sides.refresh()
        assert reader() == frozenset({binding("ALLOW READ bob a.orders")})
