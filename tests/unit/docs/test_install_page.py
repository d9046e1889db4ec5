"""The commands of docs/install.md: they change nothing in the Airflow that they are run in but what they say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.compat.environment import project

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


def test_nothing_is_to_be_installed_from_the_index_by_the_projects_name() -> None:
    """The name is free there: whoever takes it would run code on machines that have Kafka's credentials."""
    files = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md", *ROOT.glob("srm_common/**/*.py")]
    asked = re.compile(r"pip install[ '\"`]+srm-kafka|srm-kafka\[")
    named = {file.relative_to(ROOT).as_posix(): found for file in files if (found := asked.findall(file.read_text()))}
    assert named == {"docs/install.md": ["pip install srm-kafka"]}, "which says why not to"


def test_every_extra_is_explained() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.partition("### Extras")[2].partition("\n## ")[0], re.MULTILINE)
    assert set(rows) == project()["optional-dependencies"].keys() - {"test", "fuzz", "dev"}
    assert {extra for named in re.findall(r"\.whl\[([\w,]+)\]", PAGE) for extra in named.split(",")} <= {*rows}


def test_an_installation_and_an_upgrade_are_documented() -> None:
    assert ["--no-deps" in command for command in COMMANDS] == [False, True]
