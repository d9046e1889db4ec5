"""Whether a topic is still the one it was is asked of a broker each time: an answer that was lost is no answer."""

from __future__ import annotations

import time

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.errors import UnreachableCluster
from srm_common.kafka.log.log_windows import LogWindows
from srm_common.replication.driver.source_view import SourceView
from srm_common.testing import LocalKafka
from tests.faults.lossy_proxy import METADATA, LossyProxy

pytestmark = [pytest.mark.faults, pytest.mark.kafka]


def test_ids_of_topics_are_never_those_of_an_earlier_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = LossyProxy()
    kafka = LocalKafka(name="proxied", settings={"advertised.listeners": f"CLIENT://{proxy.address}"})
    with proxy.before(kafka.bootstrap_servers), kafka:
        for topic in ("again", "gone"):
            kafka.create_topic(topic)
        cluster = ClusterSettings.plaintext("a", kafka.bootstrap_servers)
        flow = FlowSettings(FlowName("a", "b"), cluster, cluster)
        with SourceView(flow) as view, LogWindows(cluster) as windows:
            before = view.topic_ids(["again", "gone", "never"])
            assert windows.topic_ids(["again", "gone", "never"]) == before
            assert before["never"] is None
            assert before["again"] != before["gone"]
            for answer in kafka.admin().delete_topics(["again", "gone"]).values():
                answer.result()
            kafka.create_topic("again")
            _wait_until_seen(flow, before)
            proxy.lose_answers(METADATA, 2)
            after = view.topic_ids(["again", "gone", "never"])
            assert after["again"] not in (None, before["again"])
            assert after["gone"] is None
            assert windows.topic_ids(["again", "gone", "never"]) == after
            proxy.lose_share(METADATA, 1.0)
            monkeypatch.setattr(view, "_patience", 1.0)
            with pytest.raises(UnreachableCluster, match="did not return the ids of 2 topics, again among them"):
                view.topic_ids(["again", "gone"])
            proxy.calm()
            assert view.topic_ids(["again"]) == {"again": after["again"]}


def _wait_until_seen(flow: FlowSettings, before: dict[str, str | None]) -> None:
    deadline = time.monotonic() + 180
    while True:
        with SourceView(flow) as view:
            now = view.topic_ids(["again", "gone"])
        if now["gone"] is None and now["again"] not in (None, before["again"]):
            return
        assert time.monotonic() < deadline, f"the broker still shows {now}"
        time.sleep(0.05)
