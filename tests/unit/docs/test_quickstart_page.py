"""The commands of docs/quickstart.md: each by itself reaches the clusters that it is about."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from srm_common.cli.main import COMMANDS

PAGE = (Path(__file__).parents[3] / "docs/quickstart.md").read_text()
DEMO, OWN = (
    [shlex.split(line) for line in re.findall(r"^    (.*srm-control .*)$", part, re.MULTILINE)]
    for part in PAGE.split("## Your own clusters", 1)
)


def test_nothing_is_left_in_the_environment() -> None:
    """What names the demo's clusters would come before the file that the reader writes next; both have this flow."""
    assert "export " not in PAGE


@pytest.mark.parametrize(
    ("commands", "configuration"), [(DEMO, ".demo/srm.properties"), (OWN, "srm.properties")], ids=["demo", "own"]
)
def test_each_command_names_its_program_and_its_clusters(commands: list[list[str]], configuration: str) -> None:
    assert len(commands) > 1
    for program, option, named, command, *_ in commands:
        # Set-up puts nothing on the PATH.
        assert (program, option, named) == (".venv/bin/srm-control", "--config", configuration)
        assert command in COMMANDS
