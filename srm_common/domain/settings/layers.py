"""The levels of a configuration file, and which of several values of a key takes effect.

The longest prefix wins, whatever its value: ``false``, ``0`` and an empty value override as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from srm_common.domain.flow import ARROW, FlowName
from srm_common.domain.settings.key import STRONGEST_FIRST, Key, Level


@dataclass(frozen=True, slots=True)
class Entry:
    """One value as written, and where. ``written`` is the full key; ``repr`` hides the value, as it may be secret.

    ``line`` is 0 where the place has no lines.
    """

    written: str
    value: str = field(repr=False)
    file: str
    line: int

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Found:
    """The value of a key for a flow: its level and entry, and the weaker ones it overrides, strongest first.

    ``level`` and ``entry`` are None for the default.
    """

    key: Key
    level: Level | None = None
    entry: Entry | None = None
    overridden: tuple[tuple[Level, Entry], ...] = ()


Scope = dict[str, Entry]
#: Levels that concern all clusters and flows.
_SHARED = (Level.TOP, Level.WORKERS, Level.CONNECTORS)


class Aliases:
    """The aliases of a file, to find them in keys, however many there are. They may contain dots: of several that a key
    begins with, the longest is meant."""

    def __init__(self, aliases: Iterable[str]) -> None:
        self._aliases = frozenset(aliases)
        self._lengths = sorted({len(alias) for alias in self._aliases}, reverse=True)

    def __contains__(self, alias: str) -> bool:
        return alias in self._aliases

    def before(self, key: str, marks: str = ".") -> str | None:
        """The longest alias that ``key`` begins with and one of ``marks`` follows."""
        return next(self.all_before(key, marks), None)

    def all_before(self, key: str, marks: str = ".") -> Iterator[str]:
        """Every alias that ``key`` begins with and one of ``marks`` follows, the longest first."""
        for length in self._lengths:
            if length < len(key) and key[length] in marks and key[:length] in self._aliases:
                yield key[:length]


@dataclass(frozen=True)
class Layers:
    """The entries of a file by level, prefixes removed.

    ``top`` holds every key as written as well, whatever it looks like: an alias may be spelled like the beginning
    of a setting. ``strangers`` are flow-level keys with an alias that ``clusters`` does not name.
    """

    aliases: tuple[str, ...]
    top: Scope
    workers: Scope
    connectors: Scope
    clusters: Mapping[str, Scope]
    flows: Mapping[FlowName, Scope]
    strangers: Mapping[FlowName, Scope]
    _strongest_first: dict[FlowName, list[Scope]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _shared: dict[tuple[Level, str, Callable[[str], bool] | None], Sequence[tuple[str, Entry]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(cls, entries: Iterable[Entry], aliases: Iterable[str]) -> Layers:
        """Sort entries into levels; of repeated keys the last one counts, as in Java."""
        known = tuple(aliases)
        names = Aliases(known)
        top: Scope = {}
        workers: Scope = {}
        connectors: Scope = {}
        clusters: dict[str, Scope] = {alias: {} for alias in known}
        flows: dict[FlowName, Scope] = {}
        strangers: dict[FlowName, Scope] = {}
        short: dict[FlowName, Entry] = {}
        spelled = [(current_spelling(entry.written, names), entry) for entry in entries]
        # Of two spellings of one key today's counts, wherever it stands.
        for key, entry in sorted(spelled, key=lambda one: one[0] == one[1].written):
            if ARROW in key:
                name, rest = split_flow_key(key, names)
                if name is not None and not rest:
                    short[name] = entry
                    continue
                if name is not None:
                    scopes = flows if name.source in clusters and name.target in clusters else strangers
                    scopes.setdefault(name, {})[rest] = entry
                    continue
            top[key] = entry
            if key.startswith("workers."):
                workers[key[8:]] = entry
            elif key.startswith("connectors."):
                connectors[key[11:]] = entry
            alias = names.before(key)
            if alias is not None:
                clusters[alias][key[len(alias) + 1 :]] = entry
        for name, entry in short.items():
            # 'a->b = true', as some of SRM's texts have it; 'a->b.enabled' goes before it.
            scopes = flows if name.source in clusters and name.target in clusters else strangers
            scopes.setdefault(name, {}).setdefault("enabled", entry)
        return cls(known, top, workers, connectors, clusters, flows, strangers)

    def scope(self, level: Level, flow: FlowName) -> tuple[Scope, str]:
        """The entries of a level that concern ``flow``, and the prefix a key has inside them."""
        if level is Level.TOP:
            return self.top, ""
        if level is Level.WORKERS:
            return self.workers, ""
        if level is Level.CONNECTORS:
            return self.connectors, ""
        if level is Level.CLUSTER:
            return self.clusters.get(flow.target, {}), ""
        if level is Level.SOURCE:
            return self.clusters.get(flow.source, {}), ""
        return self.flows.get(flow, {}), "worker." if level is Level.FLOW_WORKER else ""

    def beginning(self, level: Level, flow: FlowName, beginning: str) -> Sequence[tuple[str, Entry]]:
        """The entries of a level that concern ``flow`` and whose keys begin so, by the rest of the key."""
        if level in _SHARED:
            return self.shared(level, beginning)
        scope, prefix = self.scope(level, flow)
        start = prefix + beginning
        return [(key[len(start) :], entry) for key, entry in scope.items() if key.startswith(start)]

    def shared(
        self, level: Level, beginning: str, wanted: Callable[[str], bool] | None = None
    ) -> Sequence[tuple[str, Entry]]:
        """The entries of a level that concerns all flows and clusters, whose keys begin so and go on as ``wanted``, by
        the rest of the key. They are searched once, not for each flow or cluster."""
        found = self._shared.get((level, beginning, wanted))
        if found is None:
            found = tuple(
                (key[len(beginning) :], entry)
                for key, entry in self.scope(level, FlowName("", ""))[0].items()
                if key.startswith(beginning) and (wanted is None or wanted(key[len(beginning) :]))
            )
            self._shared[level, beginning, wanted] = found
        return found

    def find(self, key: Key, flow: FlowName) -> Found:
        """The value of ``key`` for ``flow``, with what it overrides. An older name yields to the key at its level."""
        scopes = self._strongest_first.get(flow)
        if scopes is None:
            scopes = self._strongest_first[flow] = [self.scope(level, flow)[0] for level in STRONGEST_FIRST]
        hits: list[tuple[Level, Entry]] = []
        for place in key.places:
            scope = scopes[place.number]
            if not scope:
                continue
            hits += [(STRONGEST_FIRST[place.number], scope[name]) for name in place.also if name in scope]
            for name in place.names:
                if name in scope:
                    hits.append((STRONGEST_FIRST[place.number], scope[name]))
                    break
        if not hits:
            return Found(key)
        return Found(key, hits[0][0], hits[0][1], tuple(hits[1:]))

    def strongest(self, name: str, flow: FlowName, levels: Iterable[Level]) -> Entry | None:
        """The entry of a key of a family, which no :class:`Key` knows by its name, as ``flow`` sees it; ``levels`` are
        those of the family, weakest first."""
        entry = None
        for level in levels:
            scope, prefix = self.scope(level, flow)
            entry = scope.get(prefix + name, entry)
        return entry


def current_spelling(key: str, aliases: Aliases) -> str:
    """``cluster.<alias>.key`` and ``connector.<source>-><target>.key``, as KIP-382 had them, without the first word."""
    word, _, rest = key.partition(".")
    if word == "connector" and rest.partition(ARROW)[0].strip() in aliases and ARROW in rest:
        return rest
    if word == "cluster" and word not in aliases and aliases.before(rest) is not None:
        alias = rest.removesuffix(".broker.list")
        return f"{alias}.bootstrap.servers" if alias != rest and alias in aliases else rest
    return key


def split_flow_key(key: str, aliases: Aliases) -> tuple[FlowName | None, str]:
    """``a->b.rest`` as (flow, rest); the aliases may contain dots, so the known ones are tried first.

    ``rest`` is empty for ``a->b`` alone.
    """
    left, _, right = key.partition(ARROW)
    source, right = left.strip(), right.strip()
    alias = right if right in aliases else aliases.before(right)
    if alias is not None:
        return FlowName(source, alias), right[len(alias) + 1 :]
    target, _, rest = right.partition(".")
    if not source or not target.strip():
        return None, key
    return FlowName(source, target.strip()), rest
