"""``srm-control rebind``."""

from __future__ import annotations

import click
from rich.console import RenderableType

from srm_common.cli.invocation import Invocation, config_option, output_option, pass_invocation
from srm_common.cli.output import Answer, table
from srm_common.errors import ConfigError


@click.command("rebind")
@click.option("--alias", "-a", required=True, metavar="ALIAS", help="The cluster alias, as in 'clusters'.")
@click.option("--dry-run", is_flag=True, help="Print what would be recorded, and change nothing.")
@config_option
@output_option
@pass_invocation
def command(invocation: Invocation, alias: str, dry_run: bool) -> Answer:
    """Let an alias mean the Kafka cluster that its addresses lead to now.

    Flows stop when an alias leads to another cluster than before, since two clusters' data and progress would be
    mixed. Use this when the cluster was replaced on purpose. Progress stays as it is: topics that the new cluster has
    under the same names are noticed as made again, and on.data.loss decides what becomes of them.
    """
    from srm_common.usecases.topics.rebind import rebind

    configuration = invocation.configuration()
    if alias not in configuration.layers.aliases:
        known = ", ".join(configuration.layers.aliases)
        raise ConfigError(f"'{alias}' is not one of the clusters ({known})", file=str(configuration.path))
    flows = next((flow.graph for flow in configuration.flows.values()), ())
    changes = rebind(flows, alias, dry_run=dry_run)
    done = "would be bound" if dry_run else "is bound"
    text: str | list[RenderableType] = (
        [
            f"'{alias}' {done} to the Kafka cluster {changes[0].after}.",
            "",
            table(["RECORDED ON", "BEFORE", "AFTER"], [[one.place, one.before, one.after] for one in changes]),
        ]
        if changes
        else f"Nothing to do: '{alias}' leads to the cluster that it is recorded as."
    )
    return Answer({"alias": alias, "dry_run": dry_run, "changes": [one.to_json() for one in changes]}, text)
