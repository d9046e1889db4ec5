from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from srm_common.cli.main import COMMANDS, cli, run
from srm_common.cli.output import Answer, show, table

Write = Callable[..., Path]
BASE = {"clusters": "a, b", "a.bootstrap.servers": "127.0.0.1:1", "b.bootstrap.servers": "127.0.0.1:2"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_its_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.name == name
    assert run([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert "--output" in text
    # These look after the machine, whatever its flows are.
    assert ("--config" in text) == (name not in {"pack", "warmup"})


def test_help_lists_commands_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name}" in text for name in COMMANDS)
    assert "3    a cluster or Airflow cannot be reached" in text


def test_wrong_words_end_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plam"]) == 2
    assert "No such command 'plam'" in capsys.readouterr().err
    assert run(["plan", "--output", "xml"]) == 2


@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf", "-1", "1e300"])
@pytest.mark.parametrize(
    "option",
    ["run --max-seconds", "failover --wait", "takeover --watch", "status --interval", "transform --max-seconds"],
)
def test_seconds_are_a_number_that_can_be_waited_for(
    option: str, seconds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*option.split(), seconds]) == 2
    assert f"Invalid value for '{option.split()[1]}': " in capsys.readouterr().err


def test_a_missing_file_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--config", str(tmp_path / "none"), "plan"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("srm-control: ")
    assert captured.err.count("\n") == 1
    assert "--config FILE or the variable SRM_CONFIG" in captured.err


def test_verbose_shows_where_an_error_comes_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-v", "--config", str(tmp_path / "none"), "plan"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_the_file_may_come_from_the_environment(
    configuration_file: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SRM_CONFIG", str(configuration_file({**BASE, "a->b.tasks.max": "x", "a->b.enabled": "true"})))
    assert run(["plan"]) == 2
    assert "srm.properties:4: a->b.tasks.max must be a whole number, but is 'x'" in capsys.readouterr().err


def test_the_flow_may_be_left_out_when_there_is_one(
    configuration_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    one = str(configuration_file(BASE))
    assert run(["plan", "--config", one]) == 2
    assert "no flow is enabled" in capsys.readouterr().err
    two = str(configuration_file({**BASE, "a->b.enabled": "true", "b->a.enabled": "true"}))
    assert run(["plan", "--config", two]) == 2
    assert 'say which flow with --flow: "a->b", "b->a"' in capsys.readouterr().err
    assert run(["plan", "--config", two, "--flow", "a->c"]) == 2
    assert "'c' is not one of the clusters (a, b)" in capsys.readouterr().err


def test_an_unreachable_cluster_ends_with_3(configuration_file: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = configuration_file({**BASE, "a->b.enabled": "true", "admin.timeout.ms": "1500"})
    assert run(["plan", "--config", str(path)]) == 3
    captured = capsys.readouterr()
    assert re.search(r"cluster '[ab]' \(127.0.0.1:\d\) is not reachable", captured.err)
    assert captured.err.count("\n") == 1


def test_completion_of_flows(configuration_file: Write) -> None:
    path = configuration_file({**BASE, "a->b.enabled": "true", "b->a.enabled": "true"})
    answer = subprocess.run(
        [sys.executable, "-m", "srm_common.cli.main"],
        env={"_SRM_CONTROL_COMPLETE": "bash_complete", "COMP_WORDS": "srm-control plan --flow a", "COMP_CWORD": "3",
             "SRM_CONFIG": str(path), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert answer.stdout.splitlines() == ["plain,a->b"]


def test_answers_for_people_and_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 150
    answer = Answer({"n": 1}, ["[bold]as it is[/bold]", table(["NAME", "N"], [["[a-z]+", 1], [long, None]])])
    show(answer, "table")
    text = capsys.readouterr().out.splitlines()
    assert text[0] == "[bold]as it is[/bold]"
    assert text[1].split() == ["NAME", "N"]
    assert text[2].split() == ["[a-z]+", "1"]
    assert text[3].split() == [long, "-"]
    show(answer, "json")
    assert json.loads(capsys.readouterr().out) == {"n": 1}


def test_help_starts_without_the_kafka_libraries() -> None:
    code = (
        "import sys; from srm_common.cli.main import run; run(['plan', '--help']); "
        "sys.exit(bool({'kafka', 'confluent_kafka', 'pyspark', 'airflow'} & {m.split('.')[0] for m in sys.modules}))"
    )
    root = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, timeout=300).returncode == 0
