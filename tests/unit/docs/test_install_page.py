"""The commands of docs/install.md: they change nothing in the Airflow that they are run in but what they say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/install.md").read_text()
COMMANDS = [
    shlex.split(line.replace("\\\n", " "))
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in re.findall(r"^ *(pip install (?:.*\\\n)*.*)$", block, re.MULTILINE)
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_moves_the_airflow_that_is_installed(command: list[str]) -> None:
    """pip takes the newest that extras and constraints allow, even if what is there would do, unless it is named."""
    assert "--constraint" not in command
    assert "--no-deps" in command or "apache-airflow==$(airflow version)" in command


def test_an_installation_and_an_upgrade_are_documented() -> None:
    assert ["--no-deps" in command for command in COMMANDS] == [False, True]
