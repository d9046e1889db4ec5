"""Keys that do nothing: unknown ones, known ones at a level they do not have, and those without effect here.

Each is told with the nearest key that would act. Streams Replication Manager ignores them silently.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator

from srm_common.domain.flow import FlowName
from srm_common.domain.settings.key import Key, Level
from srm_common.domain.settings.layers import Entry, Layers, split_flow_key
from srm_common.domain.settings.table import BY_NAME, KEYS, known_key
from srm_common.domain.settings.without_effect import CLIENT_NOTES
from srm_common.settings_files.client_keys import CONNECTION_KEYS, NO_EFFECT, is_connection_key
from srm_common.settings_files.connection_layers import ADDRESS, ALIAS_ROLES, flow_prefixes
from srm_common.settings_files.findings import Finding, Severity

_ROLES = ("consumer.", "producer.override.", "producer.", "consumer.override.", "admin.override.", "admin.")
_JAVA_ONLY = "does nothing here: it is about TLS or logins inside Java"
_ACTING = {name for name, key in BY_NAME.items() if not key.note and not key.is_family}
_NAMES = tuple(sorted(_ACTING | CONNECTION_KEYS | {"connection"}))
#: Close enough to be a slip of the hand.
_SIMILAR = 0.75


def key_findings(layers: Layers, entries: Iterable[Entry], flows: Collection[FlowName]) -> list[Finding]:
    """What there is to say about the keys of a file. ``flows`` are those of the configuration, faulty ones too."""
    judge = _Judge(layers, tuple(flows))
    found: list[Finding] = []
    last: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        earlier = last.get((entry.file, entry.written))
        if earlier is not None and earlier.value != entry.value:
            found.append(
                Finding.about(
                    Severity.WARNING, earlier, f"does nothing: it is written again in line {entry.line}, which counts"
                )
            )
        last[entry.file, entry.written] = entry
    seen: set[str] = set()
    for entry in last.values():
        if entry.written not in seen:  # two files may say the same
            seen.add(entry.written)
            found += judge.judged(entry)
    return found


class _Judge:
    """What a key does at its place in one file."""

    def __init__(self, layers: Layers, flows: tuple[FlowName, ...]) -> None:
        self.layers = layers
        self.flows = tuple(flow for flow in flows if flow.source in layers.clusters and flow.target in layers.clusters)
        self.longest_first = sorted(layers.aliases, key=len, reverse=True)

    def judged(self, entry: Entry) -> Iterator[Finding]:
        name, rest = split_flow_key(entry.written, self.longest_first)
        if name is not None:
            yield from self._at_flow(entry, name, rest)
            return
        written = entry.written
        exact = BY_NAME.get(written)
        alias = next((alias for alias in self.longest_first if written.startswith(alias + ".")), None)
        if alias is not None and (exact is None or Level.TOP not in exact.levels):
            yield from self._at_alias(entry, alias, written[len(alias) + 1 :])
        elif written.startswith("workers."):
            yield from self._at_level(entry, Level.WORKERS, "workers.", written[8:])
        elif written.startswith("connectors."):
            yield from self._at_level(entry, Level.CONNECTORS, "connectors.", written[11:])
        else:
            yield from self._at_top(entry)

    def _at_flow(self, entry: Entry, name: FlowName, rest: str) -> Iterator[Finding]:
        def finding(severity: Severity, text: str) -> Finding:
            return Finding.about(severity, entry, text, name)

        if name.source == name.target:
            return  # the flow's fault says it
        stranger = next((alias for alias in (name.source, name.target) if alias not in self.layers.clusters), None)
        if stranger is not None:
            yield Finding.about(Severity.WARNING, entry, self._no_cluster(stranger))
            return
        if not rest:
            counting = self.layers.flows[name]["enabled"]
            if counting is not entry:
                yield finding(Severity.WARNING, f"does nothing: {counting.written} in {counting.place} counts")
            else:
                yield finding(Severity.NOTE, f"is read as {name}.enabled; write that")
            return
        for side in ("source", "target"):
            for prefix in flow_prefixes("source" if side == "source" else "target"):
                key = rest[len(prefix) :]
                if rest.startswith(prefix) and is_connection_key(key):
                    if key == ADDRESS and not prefix:
                        text = (
                            f"does nothing; write {name.source}.{ADDRESS}, or {name}.source.cluster.{ADDRESS} for "
                            f"this flow alone"
                        )
                        yield finding(Severity.WARNING, text)
                    else:
                        yield from self._connection(entry, rest[: len(rest) - len(key)], key, name)
                    return
        if rest.startswith("worker."):
            yield from self._at_level(entry, Level.FLOW_WORKER, f"{name}.worker.", rest[7:], name)
        else:
            yield from self._at_level(entry, Level.FLOW, f"{name}.", rest, name)

    def _at_alias(self, entry: Entry, alias: str, rest: str) -> Iterator[Finding]:
        if rest == "connection":
            return
        for role in ALIAS_ROLES:
            if rest.startswith(role) and is_connection_key(rest[len(role) :]):
                yield from self._connection(entry, f"{alias}.{role}", rest[len(role) :])
                return
        key = BY_NAME.get(rest)
        if key is not None and not key.note:
            as_source = Level.SOURCE in key.levels or any(level is Level.SOURCE for level, _ in key.also)
            if Level.CLUSTER in key.levels or as_source:
                ends = {flow.source for flow in self.flows} if as_source else {flow.target for flow in self.flows}
                if alias not in ends:
                    way = "begins at" if as_source else "leads to"
                    yield Finding.about(
                        Severity.WARNING,
                        entry,
                        f"does nothing: it is about flows, and no flow {way} {alias}; {self._write(key, alias)}",
                    )
                return
        yield from self._at_level(entry, Level.CLUSTER, f"{alias}.", rest, alias=alias)

    def _at_top(self, entry: Entry) -> Iterator[Finding]:
        written = entry.written
        if written == ADDRESS:
            first = self.layers.aliases[0]
            yield Finding.about(Severity.WARNING, entry, f"does nothing; write {first}.{ADDRESS} and so on")
        elif is_connection_key(written):
            yield from self._connection(entry, "", written)
        elif known_key(written) is not None:
            yield from self._at_level(entry, Level.TOP, "", written)
        else:
            head, _, rest = written.partition(".")
            if rest and (rest == "connection" or rest in BY_NAME or rest in CONNECTION_KEYS):
                yield Finding.about(Severity.WARNING, entry, self._no_cluster(head))
            else:
                yield from self._at_level(entry, Level.TOP, "", written)

    def _at_level(
        self, entry: Entry, level: Level, prefix: str, name: str, flow: FlowName | None = None, alias: str | None = None
    ) -> Iterator[Finding]:
        def finding(severity: Severity, text: str) -> Finding:
            return Finding.about(severity, entry, text, flow)

        if any(found == (level, name) for key in KEYS for found in key.also):
            return
        key = known_key(name)
        if key is not None and (key.note or key.is_family):
            if key.note:
                client = _client_setting(name)
                yield finding(Severity.NOTE, f"does nothing here: {CLIENT_NOTES.get(client, key.note)}")
            return
        if key is None:
            yield finding(Severity.WARNING, self._unknown(level, prefix, name, flow, alias))
        elif level not in key.levels:
            yield finding(Severity.WARNING, f"does nothing at this level; {self._write(key, alias, flow)}")
        elif name != key.name:
            scope = self._scope(level, flow, alias)
            newer = scope.get(("worker." if level is Level.FLOW_WORKER else "") + key.name)
            if newer is not None:
                yield finding(Severity.WARNING, f"does nothing: {newer.written} in {newer.place} counts")
            else:
                yield finding(Severity.NOTE, f"is the older name of {prefix}{key.name}; both act")

    def _scope(self, level: Level, flow: FlowName | None, alias: str | None) -> dict[str, Entry]:
        if flow is not None:
            return self.layers.scope(level, flow)[0]
        if alias is not None:
            return self.layers.clusters[alias]
        return self.layers.scope(level, FlowName("", ""))[0]

    def _connection(self, entry: Entry, prefix: str, key: str, flow: FlowName | None = None) -> Iterator[Finding]:
        if key in NO_EFFECT:
            yield Finding.about(Severity.NOTE, entry, _JAVA_ONLY, flow)
        elif key not in CONNECTION_KEYS:
            near = _nearest(key, CONNECTION_KEYS)
            hint = f"; did you mean {prefix}{near}?" if near else ""
            yield Finding.about(Severity.WARNING, entry, f"is not known and does nothing{hint}", flow)

    def _unknown(self, level: Level, prefix: str, name: str, flow: FlowName | None, alias: str | None) -> str:
        near = nearest_key(name)
        if near is None:
            return "is not known and does nothing"
        key = BY_NAME.get(near)
        if key is None:  # a setting of the connection
            place = alias or (flow.target if flow else self.layers.aliases[0])
            return f"is not known and does nothing; did you mean {place}.{near}?"
        if level in key.levels:
            return f"is not known and does nothing; did you mean {prefix}{near}?"
        return f"is not known and does nothing; the nearest key is {near}: {self._write(key, alias, flow)}"

    def _write(self, key: Key, alias: str | None = None, flow: FlowName | None = None) -> str:
        """Where a key may be written, in this file's own names."""
        if flow is None:
            candidates = [found for found in self.flows if alias is None or alias in (found.source, found.target)]
            flow = next(iter(candidates or self.flows), None)
        forms = {
            Level.TOP: key.name,
            Level.FLOW: f"{flow or '<source>-><target>'}.{key.name}",
            Level.CLUSTER: f"{flow.target if flow else '<target>'}.{key.name}",
        }
        return "write " + " or ".join(form for level, form in forms.items() if level in key.levels)

    def _no_cluster(self, alias: str) -> str:
        known = ", ".join(self.layers.aliases)
        near = _nearest(alias, self.layers.aliases)
        hint = f"; did you mean '{near}'?" if near else ""
        return f"does nothing: '{alias}' is not one of the clusters ({known}){hint}"


def _client_setting(name: str) -> str:
    """``source.consumer.fetch.max.bytes`` -> ``fetch.max.bytes``."""
    for side in ("source.", "target."):
        name = name.removeprefix(side)
    return next((name[len(role) :] for role in _ROLES if name.startswith(role)), name)


def nearest_key(name: str) -> str | None:
    """The acting key that was probably meant, None when nothing looks like it."""
    return _nearest(name, _NAMES)


def _nearest(name: str, known: Collection[str]) -> str | None:
    """The name that was probably meant, None when nothing looks like it."""
    plain = name.lower().replace("_", ".")
    if plain in known:
        return plain
    _, dot, rest = plain.partition(".")
    if dot and rest in known:
        return rest
    return next(iter(difflib.get_close_matches(plain, known, n=1, cutoff=_SIMILAR)), None)
