"""How many replicas a topic gets where fewer brokers respond than it is to have replicas.

KRaft takes as many as brokers are registered, whether they are up or not; with ZooKeeper only those that are up count.
A topic that is created with fewer has fewer for ever, so a cluster that lacks a broker is asked again later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from srm_common.domain.amount import counted

#: Brokers that are down and hold no replica yet: how many are reckoned with.
_UNSEEN = 2


@dataclass(frozen=True, slots=True)
class Brokers:
    """``alive``: how many respond. ``missing``: others that hold replicas of topics."""

    alive: int
    missing: tuple[int, ...] = ()

    @classmethod
    def of(cls, alive: Iterable[int], holders: Iterable[int]) -> Brokers:
        """From the brokers that respond, and those that hold replicas."""
        there = frozenset(alive)
        return cls(len(there), tuple(sorted(set(holders) - there)))

    @property
    def known(self) -> int:
        return self.alive + len(self.missing)

    def affordable(self, factor: int) -> int:
        """The replication factor that the cluster can have at least, when all of its brokers are up."""
        return min(factor, self.known)

    def attempts(self, factor: int) -> tuple[int, ...]:
        """The replication factors to ask for, each where the one before is refused; :meth:`affordable` comes last."""
        least = self.affordable(factor)
        return (factor, *range(min(factor - 1, least + _UNSEEN), least - 1, -1))

    def shortage(self, factor: int) -> str:
        """What to say of a topic of the target that is to have that many replicas; empty if enough brokers respond."""
        said = ""
        if factor > self.known:
            said += f"; {factor} replicas requested, but the target has {counted(self.known, 'broker')}"
        if factor > self.alive and self.missing:
            said += f"; {self.absence()}"
        return said

    def absence(self) -> str:
        """Which brokers do not respond."""
        numbers = ", ".join(map(str, self.missing))
        return f"broker {numbers} does not respond" if len(self.missing) == 1 else f"brokers {numbers} do not respond"
