"""The graph of copies over any number of clusters: which topic's records reach which other topic. A flow checks it
before it copies.

Two rules keep a graph of copies sound, whatever topics are called:

* no record returns to a cluster where it was (a *cycle*);
* no record reaches a topic by two paths (a *diamond*).

What is copied is known from the records on the clusters. A flow reads those of its source and its target; what lies
beyond, it knows from lineages, which may be older than the newest flow. So where a flow is about to begin to copy
into a topic that exists already, and the configuration file has flows by which one of the rules *might* be broken,
the answer is to ask the clusters concerned first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from srm_common.domain.flow import FlowName, FlowSettings, GraphFlow
from srm_common.domain.flow.start_position import StartKind, StartRules
from srm_common.domain.policy import is_cycle, is_shipped
from srm_common.domain.topics.topic_records import Ancestor, Knowledge, TopicRecord, TopicRecords, TopicState

#: A cluster (its id; ``alias:`` and the alias where the id is not known) and a topic.
Place = tuple[str, str]
_NOBODY: frozenset[str] = frozenset()
#: In a guess, the name of whichever topic of the cluster it may be.
_ANY_TOPIC = ""


class Rule(StrEnum):
    """What would be broken; the value is the code of the decision."""

    CYCLE = "cycle"
    DIAMOND = "diamond"


class Answer(StrEnum):
    """What follows from a conflict."""

    REFUSE = "refuse"
    WAIT = "wait"
    """Another flow claimed at the same moment, and has to yield."""
    ASK = "ask"
    """Nothing that is known forbids it; what is not known might."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a topic cannot be copied (now). ``ask`` are the aliases whose records are needed to decide."""

    rule: Rule
    answer: Answer
    reason: str
    ask: frozenset[str] = _NOBODY


@dataclass(frozen=True, slots=True)
class _Reached:
    """A topic that a search came to. ``trail`` leads in the direction of the data. ``guessed`` are the clusters that
    would have to be asked to be sure; ``by`` is the record next to where the search began."""

    trail: tuple[Place, ...]
    guessed: frozenset[str] = _NOBODY
    by: TopicRecord | None = None


def _may_be(one: Place, other: Place) -> bool:
    """Whether two places are the same, or may be where a name is not known."""
    return one[0] == other[0] and (one[1] == other[1] or _ANY_TOPIC in (one[1], other[1]))


Steps = Callable[[Place], Iterator[tuple[tuple[Place, ...], frozenset[str], TopicRecord | None]]]


class CopyGraph:
    """The copies that one flow has to think of."""

    def __init__(self, flow: FlowSettings, knowledge: Knowledge) -> None:
        self._flow = flow
        self._knowledge = knowledge
        self._starts = StartRules(flow.start_positions)
        self._opposite = str(FlowName(flow.name.target, flow.name.source))
        self._opposite_runs = not flow.graph or any(str(graph_flow.name) == self._opposite for graph_flow in flow.graph)
        self._order = {str(one.name): number for number, one in enumerate(flow.graph)}
        self._ids: dict[str, str] = {}
        self._aliases: dict[str, str] = {}
        self._learn_ids()
        self.source, self.target = self._key(flow.name.source), self._key(flow.name.target)
        self._known: dict[str, TopicRecords] = {
            self._key(alias): records for alias, records in knowledge.records.items()
        }
        self._children: dict[Place, list[tuple[Place, TopicRecord]]] = {}
        for key, records in self._known.items():
            for record in records.topics.values():
                if self._counts(record):
                    child = (key, record.downstream_topic)
                    self._children.setdefault((record.upstream_cluster_id, record.upstream_topic), []).append(
                        (child, record)
                    )
        self._into_by: dict[str, list[GraphFlow]] = {}
        self._out_by: dict[str, list[GraphFlow]] = {}
        for graph_flow in flow.graph:
            if graph_flow.name != flow.name:
                self._into_by.setdefault(self._key(graph_flow.name.target), []).append(graph_flow)
                self._out_by.setdefault(self._key(graph_flow.name.source), []).append(graph_flow)

    # ---- questions

    def conflict(self, topic: str, remote: str) -> Conflict | None:
        """Why ``topic`` of the source must not be copied to ``remote`` of the target; None when it may."""
        records = self._known.get(self.target)
        own = None if records is None else records.find(self._flow.name, topic)
        if own is not None and (own.downstream_topic != remote or not self._counts_at_all(own)):
            own = None
        runs = own is not None and own.state is TopicState.REPLICATING
        turned = self._turned(topic)
        ancestors = self._search((self.source, topic), self._backward(guess=not runs, turned=turned), backward=True)
        worst: Conflict | None = None
        for conflict in self._conflicts(ancestors, (self.target, remote), own, guess=not runs, turned=turned):
            if conflict is None:
                continue
            if conflict.answer is Answer.REFUSE:
                return conflict
            if worst is None or conflict.answer is Answer.WAIT:
                worst = conflict
        return worst

    def lineage(self, topic: str) -> tuple[Ancestor, ...]:
        """All topics whose records come into a copy of ``topic`` of the source, as far as is known; itself first."""
        start = (self.source, topic)
        reacheds = self._search(start, self._backward(guess=False, turned=self._turned(topic)), backward=True)
        return tuple(Ancestor(key, self.alias(key), name) for key, name in reacheds)

    def alias(self, key: str) -> str:
        """What a cluster is called here."""
        return self._aliases.get(key, key.removeprefix("alias:"))

    # ---- the rules

    def _conflicts(
        self,
        ancestors: dict[Place, _Reached],
        target: Place,
        own: TopicRecord | None,
        *,
        guess: bool,
        turned: bool,
    ) -> Iterator[Conflict | None]:
        # A topic that does not exist yet has no copies yet; who copies it later knows its lineage.
        further = guess and target[1] in self._knowledge.target_topics
        descendants = self._search(target, self._forward(guess=further, turned=turned), backward=False)
        homes: dict[str, list[_Reached]] = {}
        for place, reached in ancestors.items():
            homes.setdefault(place[0], []).append(reached)
        for place, below in descendants.items():
            for above in homes.get(place[0], ()):
                trail = (*above.trail, *below.trail)
                first = trail[0]
                reason = (
                    f"it would form a loop: {self._path(trail)}; it has records of {first[1]} on {self.alias(first[0])}"
                )
                yield self._judged(Rule.CYCLE, own, above.guessed | below.guessed, reason, above.by or below.by)
        for place, below in descendants.items():
            if place in ancestors:
                continue  # a circle, see above
            others = self._search(place, self._backward(guess=guess, turned=turned), backward=True)
            for other_place, other in others.items():
                shared = next((ancestor for ancestor in ancestors if _may_be(ancestor, other_place)), None)
                if shared is None:
                    continue
                above = ancestors[shared]
                reason = (
                    f"{place[1]} on {self.alias(place[0])} gets the records of {shared[1]} on "
                    f"{self.alias(shared[0])} by {self._path(other.trail)} already; by "
                    f"{self._path((*above.trail, *below.trail))} they would arrive twice"
                )
                guessed = above.guessed | below.guessed | other.guessed
                yield self._judged(Rule.DIAMOND, own, guessed, reason, other.by)

    def _judged(
        self, rule: Rule, own: TopicRecord | None, guessed: frozenset[str], reason: str, rival: TopicRecord | None
    ) -> Conflict | None:
        if guessed:
            faults = [
                f"{alias}: {self._knowledge.unreadable[alias]}"
                for alias in sorted(guessed)
                if alias in self._knowledge.unreadable
            ]
            reason = (
                f"it is unknown whether {reason.removeprefix('it ')}, because the records of "
                f"{', '.join(sorted(guessed))} are not known"
                + (f" ({'; '.join(faults)})" if faults else "")
                + "; the next refresh checks again"
            )
            return Conflict(rule, Answer.ASK, reason, guessed - self._knowledge.unreadable.keys())
        if rival is not None and rival.flow == self._opposite and self._flow.disabled and self._opposite in self._order:
            # The file was turned; this flow, started by hand, would copy back what the other one wrote.
            return Conflict(rule, Answer.REFUSE, f"{reason}; {self._flow.name} is disabled in the file")
        if own is None or own.state not in (TopicState.CLAIMED, TopicState.REPLICATING):
            return Conflict(rule, Answer.REFUSE, reason)
        if own.state is TopicState.CLAIMED:
            if rival is not None and rival.state is TopicState.CLAIMED and self._goes_first(own, rival):
                waits = f"flow {rival.flow} claimed it at the same moment ({reason}); the next refresh checks again"
                return Conflict(rule, Answer.WAIT, waits)
            return Conflict(rule, Answer.REFUSE, reason)
        if rival is not None and rival.flow == self._opposite and not self._opposite_runs:
            # That flow has ended and does not give way; its records are in front of this one.
            return Conflict(rule, Answer.REFUSE, reason)
        # Both copy already, which only flows of files that do not know each other can come to: the newer one stops.
        if rival is None or (own.since_ms, self._rank(own)) < (rival.since_ms, self._rank(rival)):
            return None
        return Conflict(rule, Answer.REFUSE, reason)

    def _goes_first(self, own: TopicRecord, rival: TopicRecord) -> bool:
        return self._rank(own) < self._rank(rival)

    def _rank(self, record: TopicRecord) -> tuple[int, str]:
        """By the order of the file; flows that it does not have come last, by name."""
        return self._order.get(record.flow, len(self._order)), record.flow

    # ---- searching

    def _search(self, start: Place, steps: Steps, *, backward: bool) -> dict[Place, _Reached]:
        """Everything reachable from ``start``, itself first; certain before assumed, near before far."""
        reacheds = {start: _Reached((start,))}
        queue = deque([start])
        later: deque[tuple[Place, _Reached]] = deque()
        while queue or later:
            if not queue:
                place, reached = later.popleft()
                if place not in reacheds:
                    reacheds[place] = reached
                    queue.append(place)
                continue
            here = queue.popleft()
            before = reacheds[here]
            for chain, guessed, record in steps(here):
                for length in range(1, len(chain) + 1):
                    piece = chain[:length]
                    place = piece[-1]
                    if place in reacheds:
                        continue
                    # A guess that comes back to a cluster is refused by the flow concerned; names may grow forever.
                    if guessed and any(place[0] == passed for passed, _ in before.trail):
                        continue
                    trail = (*reversed(piece), *before.trail) if backward else (*before.trail, *piece)
                    reached = _Reached(trail, before.guessed | guessed, before.by or record)
                    if reached.guessed:
                        later.append((place, reached))
                    else:
                        reacheds[place] = reached
                        queue.append(place)
        return reacheds

    def _backward(self, *, guess: bool, turned: bool) -> Steps:
        """From a topic to those whose records come into it."""

        def steps(place: Place) -> Iterator[tuple[tuple[Place, ...], frozenset[str], TopicRecord | None]]:
            key, topic = place
            records = self._known.get(key)
            if records is not None:
                feeders = records.topics.values() if topic == _ANY_TOPIC else records.feeding(topic)
                for record in feeders:
                    if not self._counts(record) or (turned and record.flow == self._opposite):
                        continue
                    parent = (record.upstream_cluster_id, record.upstream_topic)
                    # Where the parent's own records are known, they are newer than the lineage.
                    older = () if parent[0] in self._known else record.lineage[1:]
                    yield (parent, *(ancestor.place for ancestor in older)), _NOBODY, record
            elif guess:
                for flow in self._into_by.get(key, ()):
                    for parent in self._parents(flow, topic):
                        yield (parent,), frozenset({flow.name.target}), None

        return steps

    def _forward(self, *, guess: bool, turned: bool) -> Steps:
        """From a topic to those that its records go into."""

        def steps(place: Place) -> Iterator[tuple[tuple[Place, ...], frozenset[str], TopicRecord | None]]:
            for child, record in self._children.get(place, ()):
                if not (turned and record.flow == self._opposite):
                    yield (child,), _NOBODY, record
            if not guess:
                return
            key, topic = place
            for flow in self._out_by.get(key, ()):
                home = self._key(flow.name.target)
                if home in self._known or flow.policy.is_internal_topic(topic):
                    continue
                if not is_cycle(flow.policy, flow.name.target, topic):
                    remote = flow.policy.format_remote_topic(flow.name.source, topic)
                    yield ((home, remote),), frozenset({flow.name.target}), None

        return steps

    def _parents(self, flow: GraphFlow, topic: str) -> Iterator[Place]:
        """The topics that ``flow`` would copy into ``topic``."""
        home = self._key(flow.name.source)
        if topic == _ANY_TOPIC or not is_shipped(flow.policy):
            # A class of a user's own may give several topics one name, and need not know the way back.
            yield home, _ANY_TOPIC
            return
        for upstream in {flow.policy.upstream_topic(topic), topic} - {None}:
            assert upstream is not None
            if home == self.target and upstream not in self._knowledge.target_topics:
                continue
            if flow.policy.is_internal_topic(upstream) or is_cycle(flow.policy, flow.name.target, upstream):
                continue
            if flow.policy.format_remote_topic(flow.name.source, upstream) == topic:
                yield home, upstream

    # ---- small facts

    def _counts(self, record: TopicRecord) -> bool:
        return record.flow != str(self._flow.name) and self._counts_at_all(record)

    def _counts_at_all(self, record: TopicRecord) -> bool:
        return self._knowledge.counts(record)

    def _turned(self, topic: str) -> bool:
        """Whether the flow in the other direction has ended and this one starts behind what it copied.

        That it really does is held by the run, partition by partition
        (:mod:`srm_common.replication.driver.starting_points`).
        """
        return not self._opposite_runs and self._starts.of(topic)[0].kind is StartKind.OPPOSITE

    def _learn_ids(self) -> None:
        knowledge, name = self._knowledge, self._flow.name
        pairs = [(name.source, knowledge.source_id), (name.target, knowledge.target_id)]
        for records in knowledge.records.values():
            pairs += [(binding.alias, binding.cluster_id) for binding in records.bindings.values()]
        for records in knowledge.records.values():
            for record in records.topics.values():
                pairs += [(ancestor.alias, ancestor.cluster_id) for ancestor in record.lineage]
        for alias, cluster_id in pairs:
            if cluster_id:
                self._ids.setdefault(alias, cluster_id)
                self._aliases.setdefault(cluster_id, alias)

    def _key(self, alias: str) -> str:
        return self._ids.get(alias, f"alias:{alias}")

    def _path(self, trail: Iterable[Place]) -> str:
        """``a -> b -> c``."""
        names: list[str] = []
        for key, _ in trail:
            names.append(self.alias(key))
        return " -> ".join(names)
