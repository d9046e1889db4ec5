"""Offsets exported while the source does not respond; Kafka's own tool takes the files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from srm_common.testing import LocalKafka
from tests.kafka.consumer_groups_tool import reset_offsets
from tests.kafka.exported_offsets import Scenario, copied_flow

pytestmark = pytest.mark.kafka


@pytest.fixture
def scenario(
    source_kafka: LocalKafka,
    target_kafka: LocalKafka,
    configuration_file: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> Scenario:
    for variable in ("SRM_AIRFLOW_URL", "AIRFLOW_HOME"):
        monkeypatch.delenv(variable, raising=False)
    return copied_flow(source_kafka, target_kafka, name, configuration_file, capsys)


def test_kafkas_own_tool_takes_what_is_exported(scenario: Scenario, target_kafka: LocalKafka, tmp_path: Path) -> None:
    one, other, remote = scenario.one, scenario.other, scenario.remote
    printed, said = scenario.offsets("--group", one, "--export")
    assert printed == f"{remote},0,30\n{remote},1,20\n"
    assert f"group {one}: checkpoints written" in said
    several, _ = scenario.offsets("--group", one, "--group", other, "--export")
    assert several.splitlines() == [f"{one},{remote},0,30", f"{one},{remote},1,20", f"{other},{remote},0,7"]
    assert len(scenario.json("--all-groups", "--export")["offsets"]) == 3
    assert f"group {scenario.topic}-x has no checkpoint" in scenario.offsets(
        "--group", f"{scenario.topic}-x", "--export", code=1
    )[1]  # fmt: skip
    assert "say which group" in scenario.offsets("--export", code=2)[1]

    short, long = tmp_path / "short.csv", tmp_path / "long.csv"
    scenario.offsets("--group", one, "--export", "--to", str(short))
    scenario.offsets("--group", f"{one},{other}", "--export", "--to", str(long))
    assert (short.read_text(), long.read_text()) == (printed, several)
    assert reset_offsets(target_kafka, str(short), "--group", one) == {(one, remote, 0, 30), (one, remote, 1, 20)}
    assert scenario.committed(target_kafka, one) == {(remote, 0): 30, (remote, 1): 20}
    assert reset_offsets(target_kafka, str(long), "--group", one, "--group", other) == {
        (one, remote, 0, 30),
        (one, remote, 1, 20),
        (other, remote, 0, 7),
    }
    assert scenario.committed(target_kafka, other) == {(remote, 0): 7}
