"""What the clusters of a flow share, without a broker: clients are made before they connect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of

FLOW = FlowSettings(
    FlowName("a", "b"), ClusterSettings.plaintext("a", "127.0.0.1:1"), ClusterSettings.plaintext("b", "127.0.0.1:2")
)
BACK = replace(FLOW, name=FlowName("b", "a"), source=FLOW.target, target=FLOW.source)


def test_what_is_given_out_shares_its_clients() -> None:
    with FlowClusters(FLOW) as clusters:
        source, target = clusters.source, clusters.target
        assert source.clients.admin.client is source.clients.admin.client
        assert source.clients.admin.client is not target.clients.admin.client
        assert target.clients.reader is target.clients.reader
        assert source.clients.reader is not target.clients.reader


@pytest.mark.parametrize("first", [True, False])
def test_an_idempotent_writer_serves_what_may_be_repeated_and_not_the_other_way_round(first: bool) -> None:
    with FlowClusters(FLOW) as clusters:
        one = clusters.target.writer(repeats_matter=first)
        assert clusters.target.writer(repeats_matter=first) is one
        assert (clusters.target.writer(repeats_matter=not first) is one) == first


def test_other_flows_between_the_same_clusters_use_the_same_clients() -> None:
    with FlowClusters(FLOW, clock=lambda: 1.5) as clusters:
        narrower = clusters.with_flow(replace(FLOW, topics=("t",)))
        assert narrower.flow.topics == ("t",)
        assert (narrower.source.clients, narrower.target.clients) == (clusters.source.clients, clusters.target.clients)
        back = clusters.opposite(BACK)
        assert (back.source.clients, back.target.clients) == (clusters.target.clients, clusters.source.clients)
        assert clusters.now_ms() == narrower.now_ms() == back.now_ms() == 1500
        with pytest.raises(AssertionError):
            clusters.with_flow(BACK)


def test_a_verb_opens_clusters_only_where_its_caller_has_none() -> None:
    with FlowClusters(FLOW) as clusters:
        before = clusters.target.clients.reader
        with clusters_of(clusters) as flow_clusters:
            assert flow_clusters is clusters
        assert clusters.target.clients.reader is before
    with clusters_of(FLOW) as flow_clusters:
        assert flow_clusters.flow is FLOW
