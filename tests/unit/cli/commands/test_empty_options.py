"""Options that a script gives with an empty variable: they do not mean everything, as they do when left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from srm_common.cli.main import run

EMPTY = ("", " ", ",", " , ")


@pytest.mark.parametrize("value", EMPTY)
@pytest.mark.parametrize(
    "arguments",
    [
        ["failover", "--mode", "disaster", "--dry-run"],
        ["failback", "--dry-run"],
        ["switch-direction", "--dry-run"],
        ["offsets", "--export"],
        ["offsets", "apply", "--dry-run"],
        ["offsets", "apply", "--dry-run", "--from-file", "FILE"],
    ],
)
def test_a_group_without_a_name(
    of_flow: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], value: str
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("billing,t,0,1\naudit,t,0,1\n")
    command = [str(file) if argument == "FILE" else argument for argument in arguments]
    for more in ([], ["--group", "billing"]):
        assert run([*command, *of_flow, "--group", value, *more]) == 2
        assert f"--group: '{value}' names nothing; give a name, or leave --group out" in capsys.readouterr().err


@pytest.mark.parametrize("value", EMPTY)
@pytest.mark.parametrize("command", [["reset", "--to", "earliest"], ["delete"], ["list"]])
def test_a_partition_without_a_number(
    of_flow: list[str], name: str, capsys: pytest.CaptureFixture[str], command: list[str], value: str
) -> None:
    assert run(["source-offsets", *command, *of_flow, "--topic", name, "--partition", value]) == 2
    said = f"--partition: '{value}' is neither a number nor several, separated by commas"
    assert said in capsys.readouterr().err
    assert run(["source-offsets", *command, *of_flow, "--topic", value]) == 2
    assert "--topic: " in capsys.readouterr().err
