"""Keys without effect: unknown keys, keys at a level they do not have, and keys of other tools.

Each is reported with the nearest key that has an effect. Streams Replication Manager ignores them silently.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from srm_common.domain.cluster import Client
from srm_common.domain.flow import FlowName
from srm_common.domain.patterns.name_filter import split_list
from srm_common.domain.settings.ineffective_keys import CLIENT_KEYS
from srm_common.domain.settings.key import Key, Level
from srm_common.domain.settings.layers import Aliases, Entry, Layers, current_spelling, split_flow_key
from srm_common.domain.settings.table import ALSO, BY_NAME, CLIENT_SETTINGS, known_key
from srm_common.domain.transforms.formats import FORMAT_KEYS
from srm_common.domain.transforms.statements import KEY as SQL
from srm_common.settings_files.connections.client_keys import CONNECTION_KEYS, NO_EFFECT, is_connection_key
from srm_common.settings_files.connections.connection_layers import (
    ADDRESS,
    DATA_CLIENT,
    EVERY_CLIENT,
    client_setting,
    flow_prefixes,
)
from srm_common.settings_files.findings import Finding, FindingCode, Severity, nearest_name
from srm_common.settings_files.transform_findings import ConfiguredSteps

_JAVA_ONLY = "has no effect here: it is about TLS or logins inside Java"
_PROVIDER = "config.providers."
_PROVIDER_KEYS = ("class", "param.allowed.paths", "param.allowlist.pattern")
#: Prefixes of keys that contain a name, and the key that has to list this name.
_LISTED = {"alarm.notifier.": "alarm.notifiers", "transforms.": "transforms", "predicates.": "predicates"}
#: Those that list transforms and their predicates.
_STEPS = ("transforms", "predicates")
_ACTING = {name for name, key in BY_NAME.items() if not key.note and not key.is_family}
_NAMES = tuple(sorted(_ACTING | CONNECTION_KEYS | {"connection"}))


def key_findings(layers: Layers, entries: Iterable[Entry], flows: Collection[FlowName]) -> list[Finding]:
    """Findings about the keys of a file. ``flows`` are those of the configuration, faulty ones too."""
    judge = _Judge(layers, tuple(flows))
    findings: list[Finding] = []
    last: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        earlier = last.get((entry.file, entry.written))
        if earlier is not None and earlier.value != entry.value:
            findings.append(
                Finding.about(
                    Severity.WARNING,
                    FindingCode.NO_EFFECT,
                    earlier,
                    f"has no effect: it is set again in line {entry.line}, which counts",
                )
            )
        last[entry.file, entry.written] = entry
    seen: set[str] = set()
    for entry in last.values():
        if entry.written not in seen:  # two files may say the same
            seen.add(entry.written)
            findings += judge.judged(entry)
    return findings


class _Judge:
    """What a key does at its place in one file."""

    def __init__(self, layers: Layers, flows: tuple[FlowName, ...]) -> None:
        self.layers = layers
        self.flows = tuple(flow for flow in flows if flow.source in layers.clusters and flow.target in layers.clusters)
        self.aliases = Aliases(layers.aliases)
        self.sources = {flow.source for flow in self.flows}
        self.targets = {flow.target for flow in self.flows}
        #: The first flow of each alias.
        self.flow_of = {alias: flow for flow in reversed(self.flows) for alias in (flow.source, flow.target)}
        self.steps = ConfiguredSteps(layers, self.flows)
        self._lists: dict[str, set[str]] = {}

    def judged(self, entry: Entry) -> Iterator[Finding]:
        written = current_spelling(entry.written, self.aliases)
        name, rest = split_flow_key(written, self.aliases)
        if written != entry.written:
            counting = self.layers.flows.get(name, {}).get(rest) if name else self.layers.top.get(written)
            if counting is not None and counting is not entry:
                text = f"has no effect: {counting.written} in {counting.place} counts"
                yield Finding.about(Severity.WARNING, FindingCode.NO_EFFECT, entry, text, name)
                return
            yield Finding.about(
                Severity.NOTE, FindingCode.RENAMED_KEY, entry, f"is an older spelling of {written}; both act", name
            )
        if name is not None:
            yield from self._at_flow(entry, name, rest)
            return
        exact = BY_NAME.get(written)
        alias = self.aliases.before(written)
        if alias is not None and (exact is None or Level.TOP not in exact.levels):
            yield from self._at_alias(entry, alias, written[len(alias) + 1 :])
        elif written.startswith("workers."):
            yield from self._at_level(entry, Level.WORKERS, "workers.", written[8:])
        elif written.startswith("connectors."):
            yield from self._everywhere(entry, Level.CONNECTORS, "connectors.", written[11:])
        else:
            yield from self._at_top(entry, written)

    def _at_flow(self, entry: Entry, name: FlowName, rest: str) -> Iterator[Finding]:
        def finding(severity: Severity, code: FindingCode, text: str) -> Finding:
            return Finding.about(severity, code, entry, text, name)

        if name.source == name.target:
            return  # the flow's fault says it
        stranger = next((alias for alias in (name.source, name.target) if alias not in self.layers.clusters), None)
        if stranger is not None:
            yield Finding.about(Severity.WARNING, FindingCode.NO_EFFECT, entry, self._no_cluster(stranger))
            return
        if not rest:
            counting = self.layers.flows[name]["enabled"]
            if counting is not entry:
                yield finding(
                    Severity.WARNING,
                    FindingCode.NO_EFFECT,
                    f"has no effect: {counting.written} in {counting.place} counts",
                )
            else:
                yield finding(Severity.NOTE, FindingCode.RENAMED_KEY, f"is read as {name}.enabled; write that")
            return
        forms = {prefix: address for prefix, address in _FLOW_FORMS if rest.startswith(prefix)}
        for prefix in sorted(forms, key=len, reverse=True):
            key = rest[len(prefix) :]
            if is_connection_key(key):
                if key == ADDRESS and not any(address for form, address in _FLOW_FORMS if form == prefix):
                    text = (
                        f"has no effect; write {name.source}.{ADDRESS}, or {name}.source.cluster.{ADDRESS} for this "
                        f"flow alone"
                    )
                    yield finding(Severity.WARNING, FindingCode.NO_EFFECT, text)
                else:
                    yield from self._connection(entry, f"{name}.{prefix}", key, name)
                return
        if rest.startswith("worker."):
            yield from self._at_level(entry, Level.FLOW_WORKER, f"{name}.worker.", rest[7:], name)
        else:
            yield from self._at_level(entry, Level.FLOW, f"{name}.", rest, name)

    def _at_alias(self, entry: Entry, alias: str, rest: str) -> Iterator[Finding]:
        if rest == "connection":
            return
        for prefix in (*EVERY_CLIENT, ""):
            if rest.startswith(prefix) and is_connection_key(rest[len(prefix) :]):
                yield from self._connection(entry, f"{alias}.{prefix}", rest[len(prefix) :])
                return
        key = ALSO.get((Level.SOURCE, rest)) or ALSO.get((Level.CLUSTER, rest)) or BY_NAME.get(rest)
        if key is not None and not key.note:
            as_source = (Level.SOURCE, rest) in ALSO
            if Level.CLUSTER in key.levels or as_source or (Level.CLUSTER, rest) in ALSO:
                ends = self.sources if as_source else self.targets
                if alias not in ends:
                    way = "begins at" if as_source else "leads to"
                    yield Finding.about(
                        Severity.WARNING,
                        FindingCode.NO_EFFECT,
                        entry,
                        f"has no effect: it is about flows, and no flow {way} {alias}; {self._write(key, alias)}",
                    )
                return
        yield from self._at_level(entry, Level.CLUSTER, f"{alias}.", rest, alias=alias)

    def _everywhere(self, entry: Entry, level: Level, prefix: str, name: str) -> Iterator[Finding]:
        """A key that applies to all clusters, if it is a connection setting."""
        for client in (*EVERY_CLIENT, ""):
            key = name[len(client) :]
            if name.startswith(client) and is_connection_key(key):
                if key == ADDRESS:
                    first = self.layers.aliases[0]
                    yield Finding.about(
                        Severity.WARNING,
                        FindingCode.NO_EFFECT,
                        entry,
                        f"has no effect; write {first}.{ADDRESS} and so on",
                    )
                else:
                    yield from self._connection(entry, prefix + client, key)
                return
        yield from self._at_level(entry, level, prefix, name)

    def _at_top(self, entry: Entry, written: str) -> Iterator[Finding]:
        if any(
            written.startswith(client) and is_connection_key(written[len(client) :]) for client in (*EVERY_CLIENT, "")
        ):
            yield from self._everywhere(entry, Level.TOP, "", written)
        elif known_key(written) is not None or written in CLIENT_KEYS:
            yield from self._at_level(entry, Level.TOP, "", written)
        else:
            head, _, rest = written.partition(".")
            if rest and (rest == "connection" or rest in BY_NAME or rest in CONNECTION_KEYS):
                yield Finding.about(Severity.WARNING, FindingCode.NO_EFFECT, entry, self._no_cluster(head))
            else:
                yield from self._at_level(entry, Level.TOP, "", written)

    def _at_level(
        self, entry: Entry, level: Level, prefix: str, name: str, flow: FlowName | None = None, alias: str | None = None
    ) -> Iterator[Finding]:
        def finding(severity: Severity, code: FindingCode, text: str) -> Finding:
            return Finding.about(severity, code, entry, text, flow)

        if (level, name) in ALSO:
            return
        setting = client_setting(name)
        key = known_key(name) or CLIENT_KEYS.get(setting)
        if setting != name and name not in BY_NAME:
            acting, near = CLIENT_SETTINGS.get(setting), CLIENT_KEYS.get(setting)
            if acting is not None:
                yield finding(
                    Severity.WARNING,
                    FindingCode.NO_EFFECT,
                    f"has no effect at this level; {self._write(acting, alias, flow)}",
                )
            elif near is not None:
                yield self._without_effect(entry, near, flow)
            else:
                yield finding(
                    Severity.WARNING,
                    FindingCode.UNKNOWN_KEY,
                    "is not a known setting of Kafka's clients, and has no effect",
                )
            return
        if key is not None and key.note:
            yield from () if self.steps.read_format(name, level) else (self._without_effect(entry, key, flow),)
            return
        if key is not None and key.is_family:
            if level not in key.levels:
                yield finding(
                    Severity.WARNING,
                    FindingCode.NO_EFFECT,
                    f"has no effect at this level; {self._write(key, alias, flow)}",
                )
            else:
                yield from self._of_family(entry, name, flow)
            return
        if key is None and name in CLIENT_SETTINGS:
            acting = CLIENT_SETTINGS[name]
            yield finding(
                Severity.WARNING,
                FindingCode.NO_EFFECT,
                f"has no effect at this level; {self._write(acting, alias, flow)}",
            )
        elif key is None:
            yield finding(Severity.WARNING, FindingCode.UNKNOWN_KEY, self._unknown(level, prefix, name, flow, alias))
        elif level not in key.levels:
            yield finding(
                Severity.WARNING, FindingCode.NO_EFFECT, f"has no effect at this level; {self._write(key, alias, flow)}"
            )
        elif missing := self._missing(name):
            yield finding(Severity.WARNING, FindingCode.NO_EFFECT, f"has no effect, as there are no {missing}")
        elif name != key.name:
            scope = self._scope(level, flow, alias)
            newer = scope.get(("worker." if level is Level.FLOW_WORKER else "") + key.name)
            if newer is not None:
                yield finding(
                    Severity.WARNING, FindingCode.NO_EFFECT, f"has no effect: {newer.written} in {newer.place} counts"
                )
            else:
                yield finding(
                    Severity.NOTE, FindingCode.RENAMED_KEY, f"is the older name of {prefix}{key.name}; both act"
                )

    def _without_effect(self, entry: Entry, key: Key, flow: FlowName | None) -> Finding:
        """A warning, which runs report, too, if the missing effect matters; otherwise a note."""
        if entry.value.strip() in key.anyway:
            return Finding.about(
                Severity.NOTE, FindingCode.REDUNDANT, entry, f"asks for what happens here anyway: {key.note}", flow
            )
        severity = Severity.WARNING if key.matters else Severity.NOTE
        return Finding.about(severity, FindingCode.NO_EFFECT, entry, f"has no effect here: {key.note}", flow)

    def _of_family(self, entry: Entry, name: str, flow: FlowName | None) -> Iterator[Finding]:
        """Keys that contain the name of something that another key has to list."""
        if name.startswith(_PROVIDER):
            provider, _, what = name[len(_PROVIDER) :].partition(".")
            listed = self.layers.top.get(_PROVIDER[:-1])
            if what not in _PROVIDER_KEYS:
                text = f"is unknown and has no effect; a provider has {', '.join(_PROVIDER_KEYS)}"
                yield Finding.about(Severity.WARNING, FindingCode.UNKNOWN_KEY, entry, text, flow)
            elif listed is None or provider not in split_list(listed.value):
                text = f"has no effect, as {_PROVIDER[:-1]} does not list '{provider}'"
                yield Finding.about(Severity.WARNING, FindingCode.NO_EFFECT, entry, text, flow)
            return
        if name.startswith(f"{SQL}."):
            # Not a transform's: a statement, or refused.
            return
        for start, listing in _LISTED.items():
            owner = name.removeprefix(start).partition(".")[0]
            if not name.startswith(start):
                continue
            if owner not in self._listed(listing):
                text = f"has no effect, as {listing} does not list '{owner}'"
                yield Finding.about(Severity.WARNING, FindingCode.NO_EFFECT, entry, text, flow)
            elif listing in _STEPS:
                yield from self.steps.misspelt(entry, name, flow)

    def _listed(self, name: str) -> set[str]:
        """All that a key lists, at any level. Cached, since hundreds of flows may have keys that need it."""
        if name not in self._lists:
            scopes = [self.layers.top, *self.layers.clusters.values(), *self.layers.flows.values()]
            scopes += [self.layers.connectors, self.layers.workers]
            values = {one.value for scope in scopes for key, one in scope.items() if key.endswith(name)}
            self._lists[name] = {item for value in values for item in split_list(value)}
        return self._lists[name]

    def _missing(self, name: str) -> str:
        """What a key would act on, if that is missing."""
        if name == "predicates" and not self._listed("transforms"):
            return "transforms"
        return "transforms of fields" if name in FORMAT_KEYS and not self.steps.any_of_fields else ""

    def _scope(self, level: Level, flow: FlowName | None, alias: str | None) -> dict[str, Entry]:
        if flow is not None:
            return self.layers.scope(level, flow)[0]
        if alias is not None:
            return self.layers.clusters[alias]
        return self.layers.scope(level, FlowName("", ""))[0]

    def _connection(self, entry: Entry, prefix: str, key: str, flow: FlowName | None = None) -> Iterator[Finding]:
        if key in NO_EFFECT:
            yield Finding.about(Severity.NOTE, FindingCode.NO_EFFECT, entry, _JAVA_ONLY, flow)
        elif key not in CONNECTION_KEYS:
            near = nearest_name(key, CONNECTION_KEYS)
            hint = f"; did you mean {prefix}{near}?" if near else ""
            yield Finding.about(
                Severity.WARNING, FindingCode.UNKNOWN_KEY, entry, f"is unknown and has no effect{hint}", flow
            )

    def _unknown(self, level: Level, prefix: str, name: str, flow: FlowName | None, alias: str | None) -> str:
        near = nearest_key(name)
        if near is None:
            return "is unknown and has no effect"
        key = BY_NAME.get(near)
        if key is None:  # a setting of the connection
            place = alias or (flow.target if flow else self.layers.aliases[0])
            return f"is unknown and has no effect; did you mean {place}.{near}?"
        if level in key.levels:
            return f"is unknown and has no effect; did you mean {prefix}{near}?"
        return f"is unknown and has no effect; the nearest key is {near}: {self._write(key, alias, flow)}"

    def _write(self, key: Key, alias: str | None = None, flow: FlowName | None = None) -> str:
        """Where a key may be written, in this file's own names."""
        if flow is None:
            first = next(iter(self.flows), None)
            flow = first if alias is None else self.flow_of.get(alias, first)
        forms = {
            Level.TOP: key.name,
            Level.FLOW: f"{flow or '<source>-><target>'}.{key.name}",
            Level.CLUSTER: f"{flow.target if flow else '<target>'}.{key.name}",
        }
        return "write " + " or ".join(form for level, form in forms.items() if level in key.levels)

    def _no_cluster(self, alias: str) -> str:
        known = ", ".join(self.layers.aliases)
        near = nearest_name(alias, self.layers.aliases)
        hint = f"; did you mean '{near}'?" if near else ""
        return f"has no effect: '{alias}' is not one of the clusters ({known}){hint}"


_FLOW_FORMS = tuple(form for side in DATA_CLIENT for client in Client for form in flow_prefixes(side, client))


def nearest_key(name: str) -> str | None:
    """The acting key that was probably meant, None when nothing looks like it."""
    return nearest_name(name, _NAMES)
