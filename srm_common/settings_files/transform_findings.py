"""Settings of transforms that do nothing because they are misspelt, and steps that lack the settings they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.settings.key import Level
from srm_common.domain.settings.layers import Entry, Layers
from srm_common.domain.settings.table import BY_NAME
from srm_common.domain.transforms.chain import StepKind, makes_headers
from srm_common.domain.transforms.field_steps import ReplaceField, class_of_fields
from srm_common.domain.transforms.formats import FORMAT_KEYS, HEADER_CONVERTER
from srm_common.domain.transforms.step_settings import settings_of
from srm_common.settings_files.findings import Finding, FindingCode, Severity, nearest_name

_LEVELS = BY_NAME["transforms.*"].levels


class ConfiguredSteps:
    """The classes of the transforms and predicates of a file, and which keys they read."""

    def __init__(self, layers: Layers, flows: tuple[FlowName, ...]) -> None:
        self._layers = layers
        self._flows = flows

    @property
    def any_of_fields(self) -> bool:
        return self._has(class_of_fields)

    def read_format(self, name: str, level: Level) -> bool:
        """Whether the key says how keys, values or headers are encoded, and some transform needs to know."""
        if level not in _LEVELS:
            return False
        if name.startswith(HEADER_CONVERTER):
            return self._has(makes_headers)
        return name.startswith(FORMAT_KEYS) and self.any_of_fields

    def misspelt(self, entry: Entry, name: str, flow: FlowName | None) -> Iterator[Finding]:
        """A setting that the class of no such transform or predicate has. Connect ignores it silently: a Filter whose
        predicate is misspelt drops everything, and a ReplaceField lets through what it should remove."""
        family, _, rest = name.partition(".")
        alias, _, setting = rest.partition(".")
        written = {
            self._layers.strongest(f"{family}.{alias}.type", one, _LEVELS) for one in ([flow] if flow else self._flows)
        }
        known = [settings_of(family, one.value) for one in written if one is not None]
        if not known or any(one is None or setting in one for one in known):
            return
        near = nearest_name(setting, {one for names in known for one in names or ()})
        prefix = entry.written.removesuffix(setting)
        hint = f"; did you mean {prefix}{near}?" if near else ""
        text = f"is unknown and has no effect{hint}"
        yield Finding.about(Severity.WARNING, FindingCode.UNKNOWN_KEY, entry, text, flow)

    def _has(self, of: Callable[[str], bool]) -> bool:
        """Whether ``of`` accepts the class of some transform."""
        return any(of(value) for value in self._classes)

    @cached_property
    def _classes(self) -> set[str]:
        scopes = (self._layers.top, self._layers.connectors, *self._layers.flows.values())
        return {
            found.value
            for scope in scopes
            for key, found in scope.items()
            if "transforms." in key and key.endswith(".type")
        }


def pointless_steps(layers: Layers, flow: FlowSettings) -> Iterator[Finding]:
    """Steps that Connect takes and that nobody wants."""
    for step in flow.transforms:
        options = None if step.fields is None else step.fields.options
        if step.kind is StepKind.FILTER and step.predicate is None:
            text = f"is a Filter without a predicate: it drops every record of {flow.name}"
        elif isinstance(options, ReplaceField) and not (options.exclude or options.include or options.renames):
            text = f"is a ReplaceField without exclude, include and renames: it changes nothing in {flow.name}"
        else:
            continue
        entry = layers.strongest(f"transforms.{step.alias}.type", flow.name, _LEVELS)
        assert entry is not None
        yield Finding.about(Severity.WARNING, FindingCode.NO_EFFECT, entry, text, flow.name)
