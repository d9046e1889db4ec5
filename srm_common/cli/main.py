"""``srm-control``: commands are loaded on demand; results and errors are printed in one place.

A command is a function ``<name>_command`` in a module of ``srm_common.cli.commands``, which returns an
:class:`~srm_common.cli.output.Answer`; its name and one line of help go into :data:`COMMANDS`.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Sequence

import click

from srm_common import __version__
from srm_common.cli.invocation import Invocation, config_option, pass_invocation
from srm_common.cli.output import Answer, Format, show
from srm_common.errors import SrmError

#: Command -> one line of help, in the order of the listing.
COMMANDS = {
    "config": "Check, explain, show and convert the configuration.",
    "plan": "Print what would change on the target before a flow copies, and why.",
    "apply": "Create and update the target's topics for a flow at once, or apply a saved plan.",
    "topics": "List the topics of the source: which are copied, as what, why or why not; edit which.",
    "groups": "List the consumer groups whose offsets are translated; edit which.",
    "offsets": "Print where consumer groups resume on the target, also for Kafka's own tool; set it.",
    "reverse-checkpointed-topics": "Print or edit the list of copies whose offsets are to be translated back.",
    "transform": "Print the newest records before and after a flow's transforms, and what other ones would change.",
    "run": "Run a flow once, without Airflow: copy what is new, write checkpoints and a heartbeat.",
    "pack": "Write an archive for Spark workers that have nothing installed.",
    "warmup": "Make Spark start faster on this machine.",
    "top": "Show the health of all flows, worst first, with lag and rates; refreshed every two seconds.",
    "status": "Print how far a flow has copied each partition, and what is wrong.",
    "heartbeats": "Print which clusters' heartbeats a flow has copied, their age and latency.",
    "source-offsets": "List and move how far a flow has copied each partition of its source.",
    "takeover": "Take a flow over from MirrorMaker 2 or Streams Replication Manager.",
    "handback": "Hand a flow back to MirrorMaker 2.",
    "failover": "Move consumer groups to the target of a flow; they resume where they are, and skip nothing.",
    "failback": "Move consumer groups back to the source of the flow along which they were failed over.",
    "switch-direction": "Move everything to the target and reverse the flow: the last step of a migration.",
    "rebind": "Bind an alias to the Kafka cluster that its addresses lead to now.",
    "check-copies": "Look for records in a flow's copies that the flow did not write.",
    "verify": "Prove that the copies are what the flow committed, or name the first difference.",
    "serve": "Serve the REST API and the Replications page without Airflow.",
    "repair": "Restore lost source offsets, as proved by the offset map and the copies.",
}
#: Command -> its module, where that is not called like the command.
_MODULES = {
    "apply": "plan",
    **dict.fromkeys(("topics", "groups", "reverse-checkpointed-topics"), "filters"),
    **dict.fromkeys(("pack", "warmup"), "spark"),
    **dict.fromkeys(("top", "heartbeats"), "status"),
    **dict.fromkeys(("takeover", "handback"), "mirror_maker"),
    **dict.fromkeys(("failover", "failback", "switch-direction"), "move"),
    **dict.fromkeys(("rebind", "check-copies"), "repair"),
}

EPILOG = """\
\b
Exit codes:
  0    done
    1    at least one partition or action failed; the output says which
  2    the configuration or the command line is invalid
  3    a cluster or Airflow cannot be reached or rejects the credentials, or a cluster is too old
  4    a state topic is not trustworthy
  5    another run owns the flow
  130  interrupted

\b
Completion, for bash (zsh and fish likewise):
  eval "$(_SRM_CONTROL_COMPLETE=bash_source srm-control)"
"""


class _Commands(click.Group):
    """Knows its commands by name; imports one only to run it or to print its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = importlib.import_module(f"srm_common.cli.commands.{_MODULES.get(cmd_name, name)}")
        command = getattr(module, f"{name}_command")
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@config_option
@click.option("--verbose", "-v", is_flag=True, help="Show where an error comes from.")
@click.version_option(__version__, prog_name="srm-control")
@pass_invocation
def cli(invocation: Invocation, verbose: bool) -> None:
    """Replicate Kafka topics between clusters: look at flows, plan them, run them."""
    invocation.verbose = verbose


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command line and end the process with its exit code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code. Errors are one sentence on standard error."""
    invocation = Invocation()
    try:
        found = cli.main(
            None if arguments is None else list(arguments),
            prog_name="srm-control",
            standalone_mode=False,
            obj=invocation,
        )
        # Not within click, which ends the process with 1 where the reader has gone.
        if isinstance(found, Answer):
            _print(found, invocation.output)
            return found.exit_code
        return found if isinstance(found, int) else 0
    except SrmError as error:
        if invocation.verbose:
            traceback.print_exc()
        print(f"srm-control: {error}", file=sys.stderr)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print("srm-control: interrupted", file=sys.stderr)
        return 130


def _print(answer: Answer, output: Format) -> None:
    try:
        show(answer, output)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has gone, and has read what it wanted. Python would complain once more at exit.
        sys.stdout = None


if __name__ == "__main__":
    main()
