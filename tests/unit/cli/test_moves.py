from __future__ import annotations

import pytest

from srm_common.cli.main import run
from srm_common.cli.moves import request_of
from srm_common.domain.moves import MoveKind, MoveMode, MoveRequest


def test_what_the_options_ask_for() -> None:
    options = {"mode": "continuous", "groups": ("a,b", "c", ""), "dry_run": True, "wait": 5}
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
