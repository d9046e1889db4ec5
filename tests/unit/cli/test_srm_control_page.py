"""docs/srm-control.md and the commands say the same."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from srm_common.cli.commands.filters import topics_command
from srm_common.cli.main import cli

PAGE = (Path(__file__).parents[3] / "docs" / "srm-control.md").read_text(encoding="utf-8")
LISTS = ("topics", "groups", "reverse-checkpointed-topics")
#: Streams Replication Manager's options, by command.
_OF_ALL = {"--help", "--source", "--target", "--config", "--bootstrap-servers", "--props"}
_OF_LISTS = {"--add", "--remove", "--add-blacklist", "--remove-blacklist", "--list"}
OF_SRM = {name: _OF_ALL | _OF_LISTS | {"--producer-props", "--consumer-props"} for name in LISTS}
OF_SRM["offsets"] = _OF_ALL | {"--export", "--group", "--to"}


def options(name: str) -> set[str]:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    commands = [command, *(command.commands.values() if isinstance(command, click.Group) else ())]
    parameters = [parameter for one in commands for parameter in one.params]
    return {"--help"} | {word for parameter in parameters for word in parameter.opts if word.startswith("--")}


@pytest.mark.parametrize("name", OF_SRM)
def test_every_option_of_srm_is_there(name: str) -> None:
    assert OF_SRM[name] <= options(name)


def test_every_option_is_on_the_page_and_none_else() -> None:
    there = set().union(*(options(name) for name in OF_SRM))
    on_page = set(re.findall(r"(?<![\w.-])--[a-z][a-z-]+", PAGE))
    of_kafka = {"--bootstrap-server", "--reset-offsets", "--from-file", "--execute"}
    assert on_page - of_kafka <= there
    elided = {f"--remove-{word}" for word in ("whitelist", "allowlist", "denylist")}  # "..." after their like
    assert there - elided - on_page <= {"--help", "--all"}


def test_short_words_of_the_help_are_understood() -> None:
    with click.Context(topics_command) as context:
        params = topics_command.make_parser(context).parse_args(
            ["--source", "a", "--target", "b", "--add", "x,y{1,2}", "--add-blacklist", "z", "--explain"]
        )[0]
    assert (params["add"], params["add_exclude"]) == (["x,y{1,2}"], ["z"])


@pytest.mark.parametrize(
    "words",
    [
        ["--add", "topic1,", "topic2,", "topic3"],
        ["--add", "topic1", ",topic2,", "topic3"],
        ["--add=topic1,", "topic2", ",", "topic3"],
    ],
)
def test_lists_may_have_blanks_after_their_commas(words: list[str]) -> None:
    """``srm-control topics --source us-west --target us-east --add topic1, topic2, topic3``."""
    context = topics_command.make_context("topics", ["--source", "us-west", *words, "--target", "us-east", "--now"])
    assert context.params["add"] == ["topic1", "topic2", "topic3"]
    assert (context.params["target"], context.params["now"]) == ("us-east", True)


def test_words_that_no_comma_joins_are_refused() -> None:
    with pytest.raises(click.UsageError, match="unexpected extra argument"):
        topics_command.make_context("topics", ["--add", "topic1", "topic2"])
