"""What becomes of an answer that standard output does not take."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

#: A command whose answer has a name of letters, in so many rows, and an exit code of its own.
COMMAND = """
import sys
import click
from srm_common.cli import main
from srm_common.cli.invocation import pass_invocation, rows_output_option
from srm_common.cli.output import Answer, table

form, rows, code = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

@click.command("plan")
@rows_output_option
@pass_invocation
def plan_command(invocation):
    names = [["заказы é 😀", number] for number in range(rows)]
    return Answer(names, [table(["NAME", "N"], names), "заказы"], code, names)

main._Commands.get_command = lambda self, context, name: plan_command
main.main(["plan", "-o", form])
"""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    file = tmp_path / "command.py"
    file.write_text(COMMAND, encoding="utf-8")
    return [sys.executable, str(file)]


@pytest.mark.parametrize("form", ["table", "json", "csv"])
@pytest.mark.parametrize("rows", [1, 20_000])
@pytest.mark.parametrize("code", [0, 1])
def test_a_reader_that_has_gone_changes_no_exit_code(command: list[str], form: str, rows: int, code: int) -> None:
    """As with head, or with grep -q in a script that has pipefail set."""
    reading, writing = os.pipe()
    os.close(reading)
    arguments = [*command, form, str(rows), str(code)]
    done = subprocess.run(arguments, stdout=writing, stderr=subprocess.PIPE, env=ENVIRONMENT, timeout=300, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (code, b"")


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "iso-8859-1"},
        {"PYTHONIOENCODING": "ascii:strict"},
        {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"},
    ],
)
@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_an_encoding_without_the_letters_loses_no_answer(
    command: list[str], form: str, environment: dict[str, str]
) -> None:
    """What the command does is done by then."""
    arguments = [*command, form, "1", "0"]
    done = subprocess.run(arguments, capture_output=True, env={**ENVIRONMENT, **environment}, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    if form == "json":
        assert json.loads(done.stdout) == [["заказы é 😀", 0]]
    elif form == "csv":
        assert list(csv.reader(io.StringIO(done.stdout.decode()))) == [["заказы é 😀", "0"]]
    else:
        assert rb"\u0437\u0430\u043a\u0430\u0437\u044b" in done.stdout
