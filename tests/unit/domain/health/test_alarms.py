"""What helps is there: an entry of docs/operations.md for each state and alarm, and commands that can be pasted."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from srm_common.cli.main import cli
from srm_common.domain.health.alarms import help_with
from srm_common.domain.health.health import AlarmKind, HealthState
from srm_common.errors import ConfigError

PAGE = Path(__file__).resolve().parents[4] / "docs" / "operations.md"
ALL = [*HealthState, *AlarmKind]


def test_the_page_has_an_entry_for_each_state_and_alarm_and_no_other() -> None:
    headings = re.findall(r"^### ((?:State|Alarm): .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    # As GitHub makes anchors of headings.
    anchors = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    assert sorted(anchors) == sorted(str(help_with(what, "a->b").anchor) for what in ALL)


@pytest.mark.parametrize("what", ALL, ids=lambda what: f"{type(what).__name__}-{what}")
def test_the_command_that_helps_says_enough(
    what: HealthState | AlarmKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = help_with(what, "a->b").command
    if written is None:
        return
    monkeypatch.setenv("SRM_CONFIG", str(tmp_path / "none.properties"))
    # Whatever else a command lacks, it says before it looks for the file.
    said = CliRunner().invoke(cli, shlex.split(written)[1:]).exception
    assert isinstance(said, ConfigError)
    assert "there is no such file" in str(said)


@pytest.mark.parametrize("what", ALL, ids=lambda what: f"{type(what).__name__}-{what}")
def test_the_command_that_helps_can_be_pasted(what: HealthState | AlarmKind) -> None:
    written = help_with(what, "a->b").command
    if written is None:
        return
    program, name, *arguments = shlex.split(written)
    assert program == "srm-control"
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    # Raises what click would tell the user.
    parsed = command.make_context(name, arguments, parent=click.Context(cli))
    assert parsed.params["flow"] == "a->b"
