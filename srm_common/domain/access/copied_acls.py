"""The bindings that a flow's copies are to have, derived from those of its source.

Readers of the source may read the copy, and only the replicator writes. What MirrorMaker 2 does
(``MirrorSourceConnector.updateTopicAcls``) is kept for literal patterns, ALLOW READ, ALLOW DESCRIBE, ALLOW ALL and
named DENYs; docs/acls.md lists where this goes further and why. Invariant, tested as such:

* for every copied topic, these bindings permit no principal to do with the copy what it may not do with the topic;
* none of them gives a right to change a copy;
* no DENY among them can be about the replicator itself.

The replicator's principal may be unknown, as with a certificate. It writes to copies, though, so it is one of those
whom the target's own bindings allow that, or a super user, whom no DENY is about: none of those gets a DENY.

Where a DENY cannot be carried over, the ALLOWs that it would limit are left out as well, with a notice.

A topic of the target's own that begins like the copies keeps a single pattern from covering them. Where there are too
many copies for a binding each, a binding of ours with that pattern stays: readers must not lose all copies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from srm_common.domain.access.acl_bindings import (
    EVERYONE,
    AclBinding,
    Operation,
    Permission,
    TopicPattern,
    beginning,
    literal,
    prefixed,
)
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.names import checkpoints_topic, heartbeats_topic

NAME_IT = "configure it with sync.topic.acls.replicator.principals"
#: What an ALLOW of the source becomes. The others change a topic: WRITE its records, DELETE these and the topic,
#: ALTER and ALTER_CONFIGS its partitions and settings, CREATE takes the copy's name. Only the replicator does that.
CARRIED_ALLOWS: Mapping[Operation, Operation] = {
    Operation.ALL: Operation.READ,
    Operation.READ: Operation.READ,
    Operation.DESCRIBE: Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS: Operation.DESCRIBE_CONFIGS,
}
#: How many bindings one of the source may become where no single pattern covers its copies.
MOST_LITERALS = 5000


@dataclass(frozen=True)
class Copies:
    """``topics``: what is copied, upstream name to downstream name. ``others``: all other topics of the target that
    a pattern for copies must not cover."""

    topics: Mapping[str, str]
    others: Collection[str] = ()

    @classmethod
    def of(
        cls, flow: FlowSettings, topics: Mapping[str, str], on_target: Iterable[str], at_source: Collection[str]
    ) -> Self:
        """``on_target`` and ``at_source`` are all topics there. One that has the name of a copy, as names under the
        default policy show, is not among the others, even if the flow does not copy it; but only if the source has the
        topic whose copy it would be. Else it is the target's own: an alias such as ``eu`` is a common prefix."""
        policy, source, copies = flow.policy, flow.name.source, set(topics.values())
        own = {checkpoints_topic(flow), policy.format_remote_topic(source, heartbeats_topic())}

        def is_copy(topic: str) -> bool:
            upstream = policy.upstream_topic(topic)
            if upstream is None or upstream == topic or policy.format_remote_topic(source, upstream) != topic:
                return False
            return upstream in at_source or topic in own

        return cls(topics, frozenset(one for one in on_target if one not in copies and not is_copy(one)))


@dataclass(frozen=True)
class WantedAcls:
    """What the copies are to have, each binding with the reason, and what could not be carried over."""

    bindings: Mapping[AclBinding, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Obstacle:
    """Why ``pattern`` is not used, which covers the right copies: it also covers ``other`` and ``more`` topics of the
    target's own."""

    pattern: TopicPattern
    other: str
    more: int

    def __str__(self) -> str:
        subject = f"{self.other} and {self.more} more, which are no copies" if self.more else f"{self.other}, no copy"
        return f"'{self.pattern}' would include {subject} that this flow knows"


class _TooMany(Exception):
    """No single pattern covers the copies, and there are too many for a binding each."""


class _PatternMap:
    """Topic patterns of the source in terms of the target."""

    def __init__(self, copies: Copies) -> None:
        self._topics = copies.topics
        self._upstream = sorted(copies.topics)
        self._downstream = sorted(copies.topics.values())
        self._others = sorted(copies.others)
        self._taken = {*self._downstream, *self._others}
        self._front = _common_front(copies.topics.items())
        self._found: dict[TopicPattern, tuple[TopicPattern, ...]] = {}
        #: What keeps a pattern from becoming a single one.
        self.obstacles: dict[TopicPattern, _Obstacle] = {}

    def of(self, pattern: TopicPattern) -> tuple[TopicPattern, ...]:
        """The patterns that cover the copies of what ``pattern`` covers and no other topic; none without copies.

        Raises:
            _TooMany: it would take a pattern for each of too many copies.
        """
        if pattern not in self._found:
            self._found[pattern] = self._map(pattern)
        return self._found[pattern]

    def ahead(self, pattern: TopicPattern) -> tuple[TopicPattern, ...]:
        """Where copies of the topics that ``pattern`` covers would be; none if names do not show it."""
        if not self._front:
            return ()
        mapped = replace(pattern, name=self._front + pattern.name)
        if pattern.prefix == "":
            mapped = prefixed(self._front)
        if mapped.prefix is None:
            return () if mapped.name in self._taken else (mapped,)
        return (mapped,) if self._copies_only(mapped.name, 0) else ()

    def _map(self, pattern: TopicPattern) -> tuple[TopicPattern, ...]:
        prefix = pattern.prefix
        if prefix is None:
            copy = self._topics.get(pattern.name)
            return () if copy is None else (literal(copy),)
        covered = beginning(self._upstream, prefix)
        if not covered:
            return ()
        front = _common_front((topic, self._topics[topic]) for topic in covered)
        if front is not None and front + prefix:
            if self._copies_only(front + prefix, len(covered)):
                return (prefixed(front + prefix),)
            if len(beginning(self._downstream, front + prefix)) == len(covered):
                others = beginning(self._others, front + prefix)
                self.obstacles[pattern] = _Obstacle(prefixed(front + prefix), others[0], len(others) - 1)
        if len(covered) > MOST_LITERALS:
            raise _TooMany
        return tuple(literal(self._topics[topic]) for topic in covered)

    def _copies_only(self, prefix: str, copies: int) -> bool:
        """Whether of the target's topics exactly so many copies begin with ``prefix``, and no other topic."""
        return not beginning(self._others, prefix) and len(beginning(self._downstream, prefix)) == copies


def writers(existing: Iterable[AclBinding], copies: Collection[str]) -> dict[AclBinding, list[str]]:
    """Bindings of the target that allow a principal to write to copies, and these."""
    names = sorted(copies)
    found = {}
    for binding in sorted(existing):
        if binding.permission is Permission.ALLOW and binding.operation in (Operation.WRITE, Operation.ALL):
            written = binding.topics.among(names)
            if written:
                found[binding] = list(written)
    return found


def wanted_acls(
    bindings: Iterable[AclBinding],
    copies: Copies,
    replicators: Collection[str],
    *,
    source: str,
    suspects: Collection[str] = (),
    ours: Collection[AclBinding] = (),
) -> WantedAcls:
    """The bindings that the copies are to have.

    Args:
        bindings: all bindings on topics of the source.
        replicators: the principals of the replicator on the target; no DENY is made for them.
        source: alias of the source, for reasons.
        suspects: principals any of which may be the replicator, where that is unknown. No DENY is made for them,
            either, and what it would limit is left out.
        ours: the flow's bindings that are on the target.
    """
    return _Rules(copies, replicators, suspects, source, ours).apply(sorted(bindings))


@dataclass(frozen=True)
class _Allow:
    """An ALLOW of the source: what remains of it, in terms of the source, and the patterns on the target."""

    origin: AclBinding
    carried: AclBinding
    patterns: tuple[TopicPattern, ...]


class _Rules:
    def __init__(
        self,
        copies: Copies,
        replicators: Collection[str],
        suspects: Collection[str],
        source: str,
        ours: Collection[AclBinding],
    ) -> None:
        self._map = _PatternMap(copies)
        self._replicators = frozenset(replicators)
        self._suspects = frozenset(suspects)
        self._source = source
        self._ours = frozenset(ours)
        self._single: dict[_Obstacle, list[AclBinding]] = defaultdict(list)
        self._kept: dict[_Obstacle, list[AclBinding]] = defaultdict(list)
        self._wanted: dict[AclBinding, str] = {}
        self._notices: list[str] = []

    def apply(self, bindings: list[AclBinding]) -> WantedAcls:
        allows = self._allows(bindings)
        by_principal: dict[str, list[_Allow]] = defaultdict(list)  # thousands, perhaps
        for allow in allows:
            by_principal[allow.carried.principal].append(allow)
        limits: dict[AclBinding, AclBinding] = {}  # origin of an ALLOW -> a DENY that the target cannot have
        for deny in bindings:
            if deny.permission is Permission.DENY and deny.principal not in self._replicators:
                near = allows if deny.principal == EVERYONE else by_principal[deny.principal] + by_principal[EVERYONE]
                for allow in self._carry_deny(deny, [one for one in near if deny.limits(one.carried)]):
                    limits.setdefault(allow.origin, deny)
        for allow in allows:
            if allow.origin in limits:
                self._notices.append(
                    f"'{allow.origin}' of {self._source} is not carried over, because "
                    f"'{limits[allow.origin]}', which limits it, cannot be"
                )
            else:
                self._want(allow.carried, allow.patterns, allow.origin)
                self._note_obstacle(allow.origin, allow.patterns)
        return WantedAcls(dict(sorted(self._wanted.items())), (*self._notices, *self._about_obstacles()))

    def _note_obstacle(self, origin: AclBinding, patterns: Sequence[TopicPattern]) -> None:
        obstacle = self._map.obstacles.get(origin.topics)
        if obstacle is not None:
            (self._kept if obstacle.pattern in patterns else self._single)[obstacle].append(origin)

    def _about_obstacles(self) -> Iterator[str]:
        """One sentence for whatever many bindings have the same reason."""
        for obstacle, origins in self._single.items():
            yield f"{self._some(origins)} carried over to each copy by itself: {obstacle}"
        for obstacle, origins in self._kept.items():
            yield (
                f"{self._some(origins)} carried over as before, although {obstacle}: there are more than "
                f"{MOST_LITERALS} copies, too many for a binding each, and readers would lose all of them"
            )

    def _some(self, origins: Sequence[AclBinding]) -> str:
        found = f"'{origins[0]}' of {self._source}"
        return f"{found} is" if len(origins) == 1 else f"{found} and {len(origins) - 1} more are"

    def _allows(self, bindings: Iterable[AclBinding]) -> list[_Allow]:
        found = []
        for binding in bindings:
            if binding.permission is not Permission.ALLOW or binding.operation not in CARRIED_ALLOWS:
                continue
            carried = replace(binding, operation=CARRIED_ALLOWS[binding.operation])
            try:
                patterns = self._map.of(binding.topics)
            except _TooMany:
                if not self._is_kept(carried):
                    self._notices.append(self._too_many(binding))
                    continue
                patterns = (self._map.obstacles[binding.topics].pattern,)
            if patterns:
                found.append(_Allow(binding, carried, patterns))
        return found

    def _is_kept(self, carried: AclBinding) -> bool:
        """Whether the target has it from us with the pattern that a topic of its own keeps from being used now."""
        obstacle = self._map.obstacles.get(carried.topics)
        return obstacle is not None and replace(carried, topics=obstacle.pattern) in self._ours

    def _carry_deny(self, deny: AclBinding, limited: list[_Allow]) -> list[_Allow]:
        """Returns those of ``limited`` that would have no such limit on the target."""
        # A DENY for everyone would include the replicator, so there is one for each principal with an ALLOW.
        denied = {deny.principal} if deny.principal != EVERYONE else {allow.carried.principal for allow in limited}
        denied -= self._replicators | {EVERYONE}
        spared = {one for one in denied if not self._suspects.isdisjoint((one, EVERYONE))}
        lacking: set[str] = set()
        try:
            patterns = self._map.of(deny.topics)
        except _TooMany:
            lacking = {one for one in denied - spared if not self._is_kept(replace(deny, principal=one))}
            if lacking:
                self._notices.append(self._too_many(deny))
            if lacking == denied - spared:
                return limited
            patterns = (self._map.obstacles[deny.topics].pattern,)
            denied -= lacking
        covered = bool(patterns)
        if not covered and any(pattern.prefix is not None for allow in limited for pattern in allow.patterns):
            # A copy that is made later may come under a prefix that is allowed now: the DENY is there before it.
            patterns = self._map.ahead(deny.topics)
        for principal in denied - spared:
            self._want(replace(deny, principal=principal), patterns, deny)
        if patterns:
            self._notices += [self._spared(deny, principal) for principal in sorted(spared)]
            if denied - spared:
                self._note_obstacle(deny, patterns)
        unlimited = spared | lacking if patterns else set()
        if covered if deny.principal == EVERYONE else unlimited:
            unlimited = unlimited | {EVERYONE}
        return [allow for allow in limited if allow.carried.principal in unlimited]

    def _want(self, binding: AclBinding, patterns: Iterable[TopicPattern], origin: AclBinding) -> None:
        for pattern in patterns:
            self._wanted.setdefault(replace(binding, topics=pattern), f"'{origin}' of {self._source}")

    def _spared(self, deny: AclBinding, principal: str) -> str:
        return (
            f"'{deny}' of {self._source} is not carried over to {principal}, which may write to copies and so may be "
            f"the replicator, whose principal is unknown; {NAME_IT}"
        )

    def _too_many(self, binding: AclBinding) -> str:
        obstacle = self._map.obstacles.get(binding.topics)
        return (
            f"'{binding}' of {self._source} is not carried over: no single pattern covers its copies alone, and "
            f"there are more than {MOST_LITERALS}" + ("" if obstacle is None else f"; {obstacle}")
        )


def _common_front(pairs: Iterable[tuple[str, str]]) -> str | None:
    """The prefix of every name on the target, None if it differs between names or is not simply a prefix."""
    fronts = {copy[: -len(topic)] if copy.endswith(topic) else None for topic, copy in pairs}
    return fronts.pop() if len(fronts) == 1 else None
