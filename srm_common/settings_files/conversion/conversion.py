"""Converts the configuration of MirrorMaker 2, Streams Replication Manager, Strimzi or Connect to one properties file.

Whatever would do nothing here becomes a comment with its reason; secrets become references to the environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from srm_common.domain.flow import FlowName
from srm_common.domain.patterns.name_filter import split_list
from srm_common.domain.settings.key import Level
from srm_common.domain.settings.layers import Aliases, Entry, Layers, current_spelling, split_flow_key
from srm_common.domain.settings.table import BY_NAME
from srm_common.errors import ConfigError
from srm_common.settings_files.clusters import CONNECTION
from srm_common.settings_files.explanations import has_login, is_secret
from srm_common.settings_files.findings import Finding, FindingCode
from srm_common.settings_files.key_findings import key_findings
from srm_common.settings_files.sources.properties import (
    Draft,
    DraftEntry,
    comment,
    parse_properties,
    property_line,
    read_properties,
)
from srm_common.settings_files.written_flows import TARGETS

_SRM = "streams.replication.manager."
_SRM_LIST = f"{_SRM}config"
# A bar that begins a new entry; topic expressions contain bars, too.
_BAR = re.compile(r"\|(?=\s*[A-Za-z0-9_.\-> ]+\s*=)")
#: Keys that become comments; all but redundant ones are lost.
_USELESS = frozenset({FindingCode.NO_EFFECT, FindingCode.UNKNOWN_KEY, FindingCode.REDUNDANT})


class Tool(StrEnum):
    """Whose configuration it is."""

    MIRROR_MAKER = "mm2"
    SRM = "srm"
    STRIMZI = "strimzi"
    CONNECT = "connect"


@dataclass(frozen=True, slots=True)
class Conversion:
    """``text`` is the file; ``lost`` what could not be carried over; ``variables`` the environment it needs."""

    tool: Tool
    text: str
    lost: tuple[str, ...]
    variables: tuple[tuple[str, str], ...]


def convert(path: Path, tool: Tool | None = None) -> Conversion:
    """Read another tool's configuration. Raises :class:`ConfigError`."""
    tool = tool or _tool_of(path)
    if tool is Tool.STRIMZI:
        from srm_common.settings_files.conversion.strimzi import strimzi_draft

        draft = strimzi_draft(path)
    elif tool is Tool.CONNECT:
        from srm_common.settings_files.conversion.connectors import connectors_draft

        draft = connectors_draft(path)
    else:
        draft = _properties_draft(path, tool)
    return Conversion(
        tool, "\n".join(_Writer(draft, tool).lines()) + "\n", tuple(draft.lost), tuple(draft.variables.items())
    )


def _tool_of(path: Path) -> Tool:
    from srm_common.settings_files.conversion.connectors import connectors_in

    if path.suffix.lower() in (".yaml", ".yml", ".json"):
        return Tool.CONNECT if connectors_in(path) else Tool.STRIMZI
    properties = read_properties(path)
    if any(one.key.startswith(_SRM) for one in properties):
        return Tool.SRM
    return (
        Tool.MIRROR_MAKER
        if any(one.key == "clusters" for one in properties) or not connectors_in(path)
        else Tool.CONNECT
    )


def _properties_draft(path: Path, tool: Tool) -> Draft:
    draft = Draft(str(path))
    last = {found.key: found for found in read_properties(path)}
    listed = last.pop(_SRM_LIST, None)
    for found in last.values():
        draft.add(found.key, found.value, f"{path}:{found.line}")
    if listed is not None:
        text = "\n".join(piece.strip() for piece in _BAR.split(listed.value))
        for inner in parse_properties(text, str(path)):
            if inner.key not in last:
                draft.add(inner.key, inner.value, f"{_SRM_LIST} in {path}:{listed.line}")
    return draft


class _Writer:
    """Turns a draft into lines: clusters, flows, then what applies to all."""

    def __init__(self, draft: Draft, tool: Tool) -> None:
        self.draft = draft
        self.tool = tool
        listed = next((entry.value for entry in reversed(draft.entries) if entry.key == "clusters"), "")
        self.aliases = tuple(alias for alias in split_list(listed) if alias)
        if not self.aliases:
            raise ConfigError("it names no clusters", file=draft.source)
        self.known = Aliases(self.aliases)
        self.draft.entries = self._today()
        entries = [Entry(entry.key, entry.value, entry.origin, 0) for entry in draft.entries]
        self.layers = Layers.of(entries, self.aliases)
        self.flows = [flow for flow in self.layers.flows if flow.source != flow.target]
        findings = key_findings(self.layers, entries, self.flows)
        self.useless = {finding.key: finding for finding in findings if finding.code in _USELESS}

    def _today(self) -> list[DraftEntry]:
        """The entries in their current spelling, which takes precedence over an older one."""
        written = {entry.key for entry in self.draft.entries}
        renamed = ((current_spelling(entry.key, self.known), entry) for entry in self.draft.entries)
        return [replace(entry, key=key) for key, entry in renamed if key == entry.key or key not in written]

    def lines(self) -> Iterator[str]:
        body = list(self._body())  # first, as it finds out what is lost and which variables there are
        yield from comment(
            f"Converted from {Path(self.draft.source).name} ({self.tool.value}) by srm-control config convert."
        )
        if self.draft.variables:
            yield "#"
            yield "# Secrets are not part of this file. They are expected in these environment variables:"
            for name, holds in self.draft.variables.items():
                yield from comment(f"{name}: {holds}", "#   ")
        if self.draft.lost:
            yield "#"
            yield "# Not carried over:"
            for sentence in self.draft.lost:
                yield from comment(sentence, "#   ")
        yield ""
        yield from body

    def _body(self) -> Iterator[str]:
        yield property_line("clusters", ", ".join(self.aliases))
        yield from self._targets()
        groups: dict[str, list[DraftEntry]] = {}
        for entry in self.draft.entries:
            if entry.key != "clusters" and entry.key != TARGETS:
                groups.setdefault(self._group(entry.key), []).append(entry)
        for alias in self.aliases:
            yield from self._section(f"Cluster {alias}", groups.pop(alias, []), self._address_missing(alias))
        for flow in self.layers.flows:
            yield from self._section(f"Flow {flow}", groups.pop(str(flow), []))
        yield from self._section("All flows", groups.pop("", []), self._nothing_at_first())
        for title, rest in groups.items():
            yield from self._section(title, rest)

    def _targets(self) -> Iterator[str]:
        entry = self.layers.top.get(TARGETS)
        if entry is not None and entry.value.strip():
            yield property_line(TARGETS, entry.value.strip())
            return
        targets = list(dict.fromkeys(flow.target for flow in self.flows))
        if len(targets) > 1:
            yield from comment(
                f"Flows lead to {', '.join(targets)}. Preferably, each target has an installation next to it (pull "
                f"mode), all with this file; each then sets the target that it serves:"
            )
            yield f"# {TARGETS} = {targets[0]}"

    def _group(self, key: str) -> str:
        flow, _ = split_flow_key(key, self.known)
        if flow is not None:
            return str(flow)
        exact = BY_NAME.get(key)
        if exact is not None and Level.TOP in exact.levels:
            return ""
        return self.known.before(key) or ""

    def _section(self, title: str, entries: list[DraftEntry], extra: list[str] | None = None) -> Iterator[str]:
        lines: list[str] = []
        for entry in entries:
            lines += self._entry(entry)
        lines += extra or []
        if lines:
            yield ""
            yield f"# {title}"
            yield from lines

    def _entry(self, entry: DraftEntry) -> Iterator[str]:
        value = self.draft.without_secrets(entry, is_secret(entry.key) or has_login(entry.value))
        if entry.remark:
            yield from comment(entry.remark)
        key = self._newest(entry.key)
        if key == "":
            return
        useless = self.useless.get(entry.key)
        if useless is None:
            yield property_line(key, value)
            return
        if useless.code is not FindingCode.REDUNDANT:
            self._lose(entry, useless)
        yield from comment(useless.text)
        yield "# " + property_line(key, value)

    def _lose(self, entry: DraftEntry, finding: Finding) -> None:
        self.draft.lost.append(f"{entry.key} ({entry.origin}) {finding.text}")

    def _newest(self, key: str) -> str:
        """The key in its newest spelling; empty if that is written, too."""
        flow, rest = split_flow_key(key, self.known)
        if flow is not None and not rest:
            return (
                ""
                if self.layers.flows.get(flow, {}).get("enabled", Entry("", "", "", 0)).written != key
                else f"{flow}.enabled"
            )
        prefix, name = (f"{flow}.", rest) if flow is not None else ("", key)
        known = BY_NAME.get(name)
        if known is None or name == known.name:
            return f"{prefix}{name}"
        newer = f"{prefix}{known.name}"
        return "" if any(entry.key == newer for entry in self.draft.entries) else newer

    def _address_missing(self, alias: str) -> list[str]:
        own = self.layers.clusters[alias]
        if "bootstrap.servers" in own or CONNECTION in own:
            return []
        self.draft.lost.append(
            f"{alias} has no address in this file; set {alias}.bootstrap.servers or {alias}.connection"
        )
        return [
            *comment("Its address and credentials are stored elsewhere (SRM: a Kafka credential). Add them here, or "
                     "set an Airflow connection that has them:"),
            f"# {alias}.bootstrap.servers = host:9092",
            f"# {alias}.connection = kafka_{re.sub(r'[^a-z0-9]+', '_', alias.lower())}",
        ]  # fmt: skip

    def _nothing_at_first(self) -> list[str]:
        """SRM copies nothing by default; MirrorMaker 2 copies everything."""
        if self.tool is not Tool.SRM:
            return []
        lines: list[str] = []
        for name in ("topics", "groups"):
            if any(self.layers.find(BY_NAME[name], flow).entry is None for flow in self.flows or [FlowName("", "")]):
                lines += comment(
                    f"SRM selects no {name} by default; srm-control {name} --add does. Without this line: all."
                )
                lines.append(property_line(name, ""))
        return lines
