"""What a run reads and writes besides the data waits for a broker that is away, as what it copies does."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.errors import UnreachableCluster
from srm_common.kafka.state.flow_state import FlowState
from srm_common.kafka.state.source_offsets import read_source_offsets
from srm_common.kafka.state.state_topics import ensure_state_topics
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.driver.source_view import SourceView
from srm_common.testing import LocalKafka

pytestmark = [pytest.mark.faults, pytest.mark.kafka]


def test_a_run_waits_for_a_broker_that_is_started_again() -> None:
    with LocalKafka(name="restarted") as kafka:
        cluster = ClusterSettings.plaintext("b", kafka.bootstrap_servers)
        flow = replace(FlowSettings(FlowName("a", "b"), cluster, cluster), retry_timeout_seconds=180.0)
        patience = flow.patience_seconds
        state = ensure_state_topics(flow)

        def keep() -> None:
            with FlowState(flow, patience_seconds=patience) as store:
                store.write("kept", 1)

        def recall() -> object:
            with FlowState(flow, patience_seconds=patience) as store:
                return store.read_all("slots")

        def ask() -> object:
            with SourceView(flow, patience_seconds=patience) as view:
                return view.topic_ids(["missing"])

        with FlowState(flow) as store:
            store.write("slots", 4)
        steps: list[Callable[[], object]] = [
            keep,
            recall,
            lambda: ensure_state_topics(flow, patience_seconds=patience),
            lambda: read_source_offsets(flow, state, patience_seconds=patience),
            lambda: Ownership.take(flow, 2, 2).release(),
            ask,
        ]
        kafka.kill()
        with ThreadPoolExecutor(len(steps)) as pool:
            futures = [pool.submit(step) for step in steps]
            # Whoever waits for a command gives up; by then the others have been told the same.
            with pytest.raises(UnreachableCluster):
                read_source_offsets(flow, state, patience_seconds=1.0)
            # Longer than a command waits for a cluster that it cannot reach.
            assert not wait(futures, 16.0).done
            kafka.restart()
            results = [future.result(300) for future in futures]
        assert results[1] == {"slots": 4}
        assert results[3] == {}
        assert results[5] == {"missing": None}
