"""``srm-control failback``."""

from __future__ import annotations

from typing import Any

import click

from srm_common.cli.invocation import Invocation, pass_invocation
from srm_common.cli.moves import carry_out, last_pass, move_options, request_of, settings_now
from srm_common.cli.output import Answer
from srm_common.domain.flow import FlowName
from srm_common.domain.moving.moves import MoveKind, MoveMode
from srm_common.usecases.moving.failback import failback
from srm_common.usecases.offsets.resume_points import opposite


@click.command("failback")
@move_options(MoveMode.CONTROLLED, MoveMode.CONTINUOUS)
@pass_invocation
def command(invocation: Invocation, /, flow: str | None, **options: Any) -> Answer:
    """Move consumer groups back to the source of the flow along which they were failed over.

    \b
      srm-control failback --flow "a->b" --dry-run      # from b back to a

    Positions on copies are translated back to the original topics, under every policy. What producers wrote at the
    backup meanwhile is copied by the flow in the other direction, where the configuration file has it, and positions on
    it go along. Records that the source had and never sent are read now.

    \b
    controlled  producers and consumers of the backup are stopped: the rest is copied, nothing is read twice
    continuous  only the consumers are stopped: producers and the flow back go on

    Steps and exit codes as for failover, of which this is the reverse.
    """
    request = request_of(MoveKind.FAILBACK, options)
    settings = settings_now(invocation, flow, request.mode)
    name = FlowName(settings.name.target, settings.name.source)
    back = settings_now(invocation, str(name), request.mode) if name in invocation.configuration().flows else None
    copies = back is not None and back.enabled and not options["no_last_pass"]
    copy = last_pass(options["master"]) if copies else None
    return carry_out(failback(settings, back, request, copy), back or opposite(settings), request)
