"""``srm-control switch-direction``."""

from __future__ import annotations

from typing import Any

import click

from srm_common.cli.invocation import Invocation, pass_invocation
from srm_common.cli.moves import carry_out, last_pass, move_options, request_of, settings_now
from srm_common.cli.output import Answer
from srm_common.domain.flow import FlowName
from srm_common.domain.moving.moves import MoveKind, MoveMode
from srm_common.usecases.moving.switch_direction import SwitchMove


@click.command("switch-direction")
@move_options(MoveMode.CONTROLLED)
@pass_invocation
def command(invocation: Invocation, /, flow: str | None, **options: Any) -> Answer:
    """Move everything to the target and turn the flow round: the last step of a migration.

    \b
      srm-control switch-direction --flow "a->b" --dry-run
      srm-control switch-direction --flow "a->b"          # then producers and consumers start at b

    Stop producers and consumers at the source first. The rest is copied, the groups are moved as by failover, and the
    flow in the other direction is made to begin behind what was copied, so that nothing comes back. Where topics keep
    their names, the step turn wants the configuration file turned ("a->b.enabled = false", "b->a.enabled = true"):
    change it and give the command again. Then unpause the DAG of the other flow, or run it.

    \b
    Exit codes: 0 the flow is turned; 1 a step failed; 2 the configuration is wrong or a group is not known; 3 a cluster
    cannot be reached; 4 a state topic cannot be believed; 5 a run is at work.
    """
    request = request_of(MoveKind.SWITCH_DIRECTION, options)
    settings = settings_now(invocation, flow, request.mode)
    back = invocation.configuration().flow(FlowName(settings.name.target, settings.name.source))
    # Once the file is turned, the flow has copied what there was.
    copies = settings.enabled and not options["no_last_pass"]
    copy = last_pass(options["master"]) if copies else None
    return carry_out(SwitchMove(settings, back, request, copy), settings, request)
