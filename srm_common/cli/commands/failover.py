"""``srm-control failover``."""

from __future__ import annotations

from typing import Any

import click

from srm_common.cli.invocation import Invocation, pass_invocation
from srm_common.cli.moves import carry_out, last_pass, move_options, request_of, settings_now
from srm_common.cli.output import Answer
from srm_common.domain.moving.moves import MoveKind, MoveMode
from srm_common.usecases.moving.failover import Move


@click.command("failover")
@move_options(MoveMode.CONTROLLED, MoveMode.CONTINUOUS, MoveMode.DISASTER)
@pass_invocation
def command(invocation: Invocation, /, flow: str | None, **options: Any) -> Answer:
    """Move consumer groups to the target: they go on there where they are at the source, and skip nothing.

    \b
    controlled  producers and consumers of the source are stopped: the rest is copied, nothing is read twice
    continuous  only the consumers are stopped: producers and the flow go on, nothing is read twice
    disaster    the source may be gone: checkpoints tell where groups stood; what is read again is bounded and said

    \b
      srm-control failover --flow "a->b" --mode disaster --dry-run
      srm-control failover --flow "a->b" --group billing

    Steps: check, stop (no run is at work, forgotten ones are fenced), drain (last pass), translate, apply, verify,
    report. What fails is said with what to do; the command may be given again at any time, also after it was killed.
    Groups that somebody reads with are not moved. Without --group: every group that the flow translates.

    \b
    Exit codes: 0 all groups go on; 1 a step failed or a group could not be moved; 2 the configuration is wrong or a
    group is not known; 3 a cluster cannot be reached; 4 a state topic cannot be believed; 5 a run is at work.
    """
    request = request_of(MoveKind.FAILOVER, options)
    settings = settings_now(invocation, flow, request.mode)
    copy = None if options["no_last_pass"] else last_pass(options["master"])
    return carry_out(Move(settings, request, copy), settings, request)
