from __future__ import annotations

import pytest

from srm_common.cli.commands.move import pause_schedule, request_of
from srm_common.cli.main import run
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.moving.moves import MoveKind, MoveMode, MoveRequest
from srm_common.testing.ports import ReservedPort


def test_what_the_options_ask_for() -> None:
    options = {"mode": "continuous", "groups": ("a,b", "c, a,"), "dry_run": True, "wait": 5}
    assert request_of(MoveKind.FAILBACK, options) == MoveRequest(
        MoveKind.FAILBACK, MoveMode.CONTINUOUS, ("a", "b", "c"), dry_run=True, wait_seconds=5.0
    )
    assert request_of(MoveKind.FAILOVER, {**options, "groups": ()}).groups is None


@pytest.mark.parametrize(
    "arguments",
    [
        ["failover", "--mode", "by-magic"],
        ["failback", "--mode", "disaster"],
        ["failover", "--wait", "-1"],
        ["failover", "--output", "csv"],
    ],
)
def test_what_cannot_be_asked_for(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert "Invalid value" in capsys.readouterr().err


def test_an_airflow_that_is_gone_too_does_not_keep_groups_from_moving(monkeypatch: pytest.MonkeyPatch) -> None:
    east, west = (ClusterSettings.plaintext(alias, "127.0.0.1:1") for alias in ("east", "west"))
    flow = FlowSettings(FlowName("east", "west"), east, west)
    monkeypatch.delenv("SRM_AIRFLOW_URL", raising=False)
    (said,) = pause_schedule(flow, MoveMode.DISASTER)
    assert said.startswith("If Airflow runs the flow, pause its DAG srm.east.west there")
    port = ReservedPort()
    monkeypatch.setenv("SRM_AIRFLOW_URL", f"http://{port.address}")
    (said,) = pause_schedule(flow, MoveMode.DISASTER)
    port.release()
    assert said.startswith("The DAG srm.east.west could not be paused: Airflow at http://127.0.0.1")
