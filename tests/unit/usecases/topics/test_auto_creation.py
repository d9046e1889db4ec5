"""On clusters that create each topic they are asked about, commands that only look change nothing, and a run creates
what is its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from srm_common.cli.main import cli, run
from srm_common.domain.flow.names import CONTROL_TOPIC, META_TOPIC
from srm_common.testing import FakeCluster
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from tests.unit.usecases.fakes import Sides, properties_of

#: What to ask of each command that only looks, or has --dry-run. ``{name}`` is a topic of the source, ``{alias}`` the
#: source, ``{target}`` the target, ``{file}`` a configuration file.
LOOKING = {
    "config check": ["--without-airflow", ""],
    "config explain": ["topics"],
    "config show": ["", "--written"],
    "config convert": ["{file}"],
    "plan": ["", "--out {folder}/plan.json", "--resume {name} --recreate {name}-gone"],
    "apply": ["--dry-run", "--dry-run --recreate {name}"],
    "transform": ["", "--topic {name} --sample 3 --set transforms=", "--against {file}"],
    "topics": ["", "--all", "--list", "--explain", "--history", "--dry-run --add other", "--dry-run --remove {name}.*"],
    "groups": ["", "--list", "--explain", "--history", "--dry-run --add-exclude g", "--dry-run --reset"],
    "offsets": ["--group g", "--all-groups", "--group g --export --to {folder}/offsets.csv"],
    "offsets apply": ["--dry-run --group g", "--dry-run --all-groups --rewind"],
    "reverse-checkpointed-topics": ["--list", "--history", "--dry-run --add other", "--dry-run --reset"],
    "top": ["--once", "--once --live"],
    "status": [""],
    "heartbeats": [""],
    "source-offsets list": [""],
    "source-offsets delete": ["--dry-run --topic {name}.*"],
    "source-offsets reset": [f"--dry-run --topic {{name}}.* --to {to}" for to in ("earliest", "latest", "opposite")],
    "source-offsets set": [f"--dry-run --topic {topic} --partition 0 --offset 3" for topic in ("{name}", "absent")],
    "takeover": ["--dry-run --watch 0", "--dry-run --watch 0 --connect-group c --connector m --offsets-topic absent"],
    "handback": ["--dry-run", "--dry-run --connect-group c --connector m --offsets-topic absent"],
    "failover": ["--dry-run --wait 0", "--dry-run --wait 0 --no-last-pass"],
    "failback": ["--dry-run --wait 0", "--dry-run --wait 0 --no-last-pass"],
    "switch-direction": ["--dry-run --wait 0", "--dry-run --wait 0 --no-last-pass"],
    "rebind": ["--dry-run --alias {alias}", "--dry-run --alias {target}"],
    "check-copies": [""],
    "repair": ["--dry-run", "--plan"],
}
#: The others, and why they are not among them.
NOT_LOOKING = {
    "run": "copies",
    "verify": "keeps its result in the flow's state; what it reads is what check-copies reads",
    "serve": "runs until it is stopped; what it reads is what these commands read",
    "pack": "knows of no cluster",
    "warmup": "knows of no cluster",
}


def commands_of(command: click.Command = cli, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command line that there is, without its options, as the parser knows them."""
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield " ".join(words), command
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for word in command.list_commands(context):
                found = command.get_command(context, word)
                assert found is not None
                yield from commands_of(found, (*words, word))


def options_of(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


def test_no_command_is_left_out() -> None:
    there = dict(commands_of())
    assert LOOKING.keys() | NOT_LOOKING.keys() == there.keys()
    for words, command in there.items():
        tried = any("--dry-run" in line for line in LOOKING.get(words, ()))
        assert tried == ("--dry-run" in options_of(command)), words


def contents_of(kafka: FakeCluster) -> dict[str, object]:
    """What a command could have changed: each topic's settings, and where its logs end."""
    return {
        topic: (dict(kafka.topic_config(topic)), [kafka.log(topic, number).end for number in range(partitions)])
        for topic, partitions in kafka.topics().items()
    }


def test_commands_and_runs_create_what_is_theirs_and_no_more(
    steady_sides: Sides, configuration_file: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides, name = steady_sides, "orders"
    source, target, flow = sides.source, sides.target, sides.flow
    alias = flow.name.source
    both = {**properties_of(flow), f"{flow.name.target}->{alias}.enabled": "true"}
    file = str(configuration_file(both))
    for topic in (name, f"{name}-gone"):
        source.create_topic(topic, 2)
        source.write(topic, [(None, b"x")] * 10)
    source.commit("g", {(name, 0): 5, (f"{name}-gone", 0): 5})

    def look_at_everything() -> None:
        before = contents_of(source), contents_of(target)
        there = dict(commands_of())
        for words, lines in LOOKING.items():
            chosen = ["--flow", str(flow.name)] if "--flow" in options_of(there[words]) else []
            for options in lines:
                line = [*words.split(), *chosen]
                line += options.format(
                    name=name, alias=alias, target=flow.name.target, file=file, folder=tmp_path
                ).split()
                code = run(["--config", file, *line])
                shown = capsys.readouterr()
                # What a command looks for may be missing, which is when clusters are tempted; but it must have looked.
                assert code in (0, 1, 2, 4), f"{line}: {shown.out}{shown.err}"
                assert "Usage:" not in shown.err, f"{line}: {shown.err}"
                assert (contents_of(source), contents_of(target)) == before, line

    def run_once() -> None:
        sides.refresh()
        sides.run()
        sync_checkpoints(flow)

    # Before the flow has anything, and when topics that it copied are gone on both sides.
    look_at_everything()
    run_once()
    copies = {f"{alias}.{name}", f"{alias}.{name}-gone"}
    assert set(source.topics()) == {name, f"{name}-gone", f"mm2-offset-syncs.{flow.name.target}.internal"}
    state = {f"mm2-{kind}.{alias}.internal" for kind in ("offsets", "configs", "status", "offset-segments")}
    state |= {
        META_TOPIC,
        CONTROL_TOPIC,
        "heartbeats",
        f"srm-flow-state.{alias}.internal",
        f"{alias}.checkpoints.internal",
    }
    assert copies <= set(target.topics()) <= copies | state

    source.delete_topic(f"{name}-gone")
    target.delete_topic(f"{alias}.{name}-gone")
    source.write(name, [(None, b"x")] * 10)
    before = set(source.topics()), set(target.topics())
    run_once()
    look_at_everything()
    assert (set(source.topics()), set(target.topics())) == before
