from __future__ import annotations

import pytest
from confluent_kafka import Producer

from srm_common.cli.main import run
from srm_common.domain.flow import FlowSettings
from srm_common.testing import FakeCluster


def test_a_foreign_record_may_have_any_timestamp(
    copied_flow: FlowSettings,
    of_flow: list[str],
    target_kafka: FakeCluster,
    name: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    nanoseconds = 1_769_860_800_000_000_000
    producer = Producer({"bootstrap.servers": target_kafka.bootstrap_servers})
    producer.produce(f"{copied_flow.name.source}.{name}", b"not ours", partition=0, timestamp=nanoseconds)
    assert producer.flush(60) == 0
    assert run(["check-copies", *of_flow]) == 1
    assert f"{nanoseconds} ms" in capsys.readouterr().out
