"""Which flow the ``config`` commands are about: a faulty one may be looked at, too."""

from __future__ import annotations

from srm_common.domain.flow import FlowName
from srm_common.errors import UnknownFlow
from srm_common.settings_files.configuration import Configuration


def flow_name(configuration: Configuration, asked: str | None) -> FlowName:
    """The flow asked for, or the only one of the file. Raises :class:`ConfigError`."""
    if asked is None:
        names = [flow.name for flow in configuration.enabled_flows] + list(configuration.faults)
        if len(names) != 1:
            listed = ", ".join(f'"{name}"' for name in names)
            raise UnknownFlow(
                f"say which flow with --flow: {listed}" if names else "no flow is enabled",
                file=str(configuration.path),
            )
        asked = str(names[0])
    name = FlowName.parse(asked)
    if name not in configuration.faults or not {name.source, name.target} <= set(configuration.layers.aliases):
        configuration.flow(name)  # raises when there is no such flow
    return name
