"""What one target does to the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from srm_common.domain.flow.names import SERVICES_TOPIC
from srm_common.rest.peers.advertiser import Advertiser
from srm_common.settings_files.configuration import load_configuration
from srm_common.testing import FakeCluster
from srm_common.testing.airflow_client import wait_until


def advertised(kafka: FakeCluster) -> bool:
    return SERVICES_TOPIC in kafka.topics() and bool(kafka.records(SERVICES_TOPIC))


def test_a_silent_target_does_not_delay_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "srm.properties"
    with FakeCluster() as source, FakeCluster() as silent, FakeCluster() as other:
        file.write_text(
            f"clusters = a, b, c\na.bootstrap.servers = {source.bootstrap_servers}\n"
            f"b.bootstrap.servers = {silent.bootstrap_servers}\nc.bootstrap.servers = {other.bootstrap_servers}\n"
            "a->b.enabled = true\na->c.enabled = true\nreplication.factor = 1\ninternal.replication.factor = 1\n"
            "service.advertised.url = http://service.example:1\n"
        )
        silence = silent.silence()
        with Advertiser(lambda: load_configuration(file), timeout_seconds=120):
            wait_until(lambda: advertised(other), 110, "the record")
            assert not advertised(silent)
            silence.end()
            wait_until(lambda: advertised(silent), 110, "the other record")
        assert not caplog.messages
