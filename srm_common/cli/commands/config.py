"""``srm-control config``."""

from __future__ import annotations

import importlib

import click

from srm_common.cli.invocation import config_option, output_option

#: Command -> one line of help; the module is ``config_<name>``.
COMMANDS = {
    "check": "Print every fault of the file, and every key that does nothing.",
    "explain": "Print where a key's value comes from, what it overrides and what it means.",
    "show": "Print all effective values of a flow, with their origins.",
    "convert": "Make a properties file of MirrorMaker 2's, SRM's or Strimzi's configuration.",
}


class _Commands(click.Group):
    """Imports a command only to run it or to print its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"srm_common.cli.commands.config_{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group("config", cls=_Commands)
@config_option
@output_option
def command() -> None:
    """Look at the configuration, and make one from another tool's. Connects to no cluster."""
