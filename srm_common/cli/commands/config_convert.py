"""``srm-control config convert``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from srm_common.cli.invocation import output_option
from srm_common.cli.output import Answer
from srm_common.errors import ConfigError
from srm_common.settings_files.conversion import Tool, convert


@click.command("convert")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--from",
    "tool",
    type=click.Choice([tool.value for tool in Tool]),
    help="Whose configuration it is.  [default: as it looks]",
)
@click.option("--to", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the file there.")
@output_option
def command(file: Path, tool: str | None, to: Path | None) -> Answer:
    """Make a properties file of the configuration in FILE.

    FILE is an mm2.properties of MirrorMaker 2, the service properties of Streams Replication Manager, the YAML of a
    KafkaMirrorMaker2 or of KafkaConnector resources of Strimzi, or MirrorMaker 2's connectors as Connect's REST API
    takes and answers them (JSON, such as of GET /connectors?expand=info&expand=status). What would do nothing here
    becomes a comment with its reason. Secrets are not copied: references to environment variables stand in their place,
    and the file begins with the list of them.
    """
    made = convert(file, Tool(tool) if tool else None)
    data = {
        "from": made.tool.value,
        "to": str(to) if to else None,
        "text": made.text,
        "lost": list(made.lost),
        "variables": dict(made.variables),
    }
    if to is None:
        return Answer(data, made.text.rstrip("\n"))
    _write(to, made.text)
    lines = [f"wrote {to}"]
    lines += [f"not carried over: {sentence}" for sentence in made.lost]
    lines += [f"to be set: {name}: {holds}" for name, holds in made.variables]
    lines.append(f"Look at it with: srm-control config check --config {to}")
    return Answer(data, "\n".join(lines))


def _write(path: Path, text: str) -> None:
    try:
        # Never over what somebody has written by hand.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
    except FileExistsError:
        raise ConfigError("exists already; name another file with --to", file=str(path)) from None
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(path)) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
