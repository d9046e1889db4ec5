"""``srm-control config explain``."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem
from rich.console import RenderableType

from srm_common.cli.commands.config_flow import flow_name
from srm_common.cli.invocation import Invocation, config_option, flow_option, output_option, pass_invocation
from srm_common.cli.output import Answer
from srm_common.domain.settings.table import KEYS
from srm_common.settings_files.client_keys import CONNECTION_KEYS
from srm_common.settings_files.explanations import Explainer, texts


def _complete_key(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = sorted({key.name for key in KEYS if not key.is_family} | CONNECTION_KEYS)
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command("explain")
@click.argument("key", shell_complete=_complete_key)
@flow_option
@config_option
@output_option
@pass_invocation
def command(invocation: Invocation, key: str, flow: str | None) -> Answer:
    """Print where the value of KEY comes from, what it overrides and what it means.

    KEY is written without any prefix. For a connection setting, such as security.protocol, both sides are told. Secrets
    are masked.
    """
    configuration = invocation.configuration()
    name = flow_name(configuration, flow)
    found = Explainer(configuration, name).explain(key)
    parts: list[RenderableType] = []
    for explanation in found:
        side = f" ({explanation.place})" if explanation.place else ""
        value = "" if explanation.value is None else f" = {explanation.value}"
        parts.append(f"{name}{side}: {explanation.name}{value}")
        parts += [f"  {what:<17} {text}" for what, text in texts(explanation)]
    return Answer({"flow": str(name), "explanations": [explanation.to_json() for explanation in found]}, parts)
