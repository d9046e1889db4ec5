"""Create topics and alter their settings, as far as the target goes along: it may have too few brokers, or refuse
settings that a topic can do without."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from srm_common.domain.amount import counted
from srm_common.domain.topics.actions import AlterConfigs, CreateTopic
from srm_common.domain.topics.refused_settings import conceded, described
from srm_common.domain.topics.topic_settings import OPTIONAL, price
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.kafka.client.faults import refuses_settings
from srm_common.kafka.client.librdkafka import KafkaError

A = TypeVar("A", covariant=True)


@dataclass(frozen=True, slots=True)
class Changed:
    """What became of a change: ``fault`` is the last answer, None when it is done; ``note`` says what is different from
    the plan, ``left_out`` which settings are."""

    fault: KafkaError | None
    note: str | None = None
    left_out: frozenset[str] = frozenset()


def create(admin: ClusterAdmin, actions: Sequence[CreateTopic]) -> list[Changed]:
    """One result per action, in their order; several attempts at those that the cluster refuses.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: the cluster cannot be asked at all.
    """
    return _asked_until_done([_Creation(action) for action in actions], admin.create_topics)


def alter(admin: ClusterAdmin, actions: Sequence[AlterConfigs]) -> list[Changed]:
    """As :func:`create`."""
    return _asked_until_done([_Alteration(action) for action in actions], admin.alter_configs)


def _asked_until_done(
    changes: Sequence[_Change[A]], ask: Callable[[Sequence[A]], Sequence[KafkaError | None]]
) -> list[Changed]:
    waiting = changes
    while waiting:
        faults = ask([change.asked() for change in waiting])
        waiting = [change for change, fault in zip(waiting, faults, strict=True) if change.goes_on(fault)]
    return [change.result() for change in changes]


class _Change(Protocol[A]):
    def asked(self) -> A:
        """What to ask for now."""

    def goes_on(self, fault: KafkaError | None) -> bool:
        """Whether to ask for something else after this answer."""

    def result(self) -> Changed: ...


@dataclass
class _Wishes:
    """Settings that a topic can do without: those of the plan, and those that are left."""

    planned: Mapping[str, str]
    left: dict[str, str] = field(init=False)
    refusal: str = ""

    def __post_init__(self) -> None:
        self.left = dict(self.planned)

    def concede(self, fault: KafkaError) -> bool:
        """Ask for less, if the answer is about settings; False if there is nothing to be left out."""
        if not refuses_settings(fault) or not self.left:
            return False
        self.refusal = f"{fault.str()} ({fault.name()})"
        self.left = conceded(self.left, self.refusal)
        return True

    @property
    def left_out(self) -> frozenset[str]:
        return frozenset(key for key, value in self.planned.items() if self.left.get(key) != value)

    def note(self) -> str | None:
        if not self.left_out:
            return None
        changed = described(self.planned, self.left)
        return f"{changed}, because the target refused more: {self.refusal}; {price(self.left_out)}"


class _Creation:
    """A topic that is being created."""

    def __init__(self, action: CreateTopic) -> None:
        self._action = action
        self._factors = list(action.attempts) or [action.replication_factor]
        self._wishes = _Wishes({key: value for key, value in action.configs if key in action.optional})
        self._fault: KafkaError | None = None

    def asked(self) -> CreateTopic:
        action, left = self._action, self._wishes.left
        configs = [
            (key, left.get(key, value)) for key, value in action.configs if key in left or key not in action.optional
        ]
        return replace(action, replication_factor=self._factors[0], configs=tuple(configs))

    def goes_on(self, fault: KafkaError | None) -> bool:
        self._fault = fault
        if fault is None:
            return False
        if fault.code() == KafkaError.INVALID_REPLICATION_FACTOR and len(self._factors) > 1:
            del self._factors[0]
            return True
        return self._wishes.concede(fault)

    def result(self) -> Changed:
        if self._fault is not None:
            return Changed(self._fault)
        notes = []
        if self._factors[0] != self._action.replication_factor:
            replicas = counted(self._factors[0], "replica")
            notes.append(f"it has {replicas}, since the cluster has brokers that do not respond")
        if note := self._wishes.note():
            notes.append(f"it was created {note}")
        return Changed(None, "; ".join(notes) or None, self._wishes.left_out)


class _Alteration:
    """A topic whose settings are being altered."""

    def __init__(self, action: AlterConfigs) -> None:
        self._action = action
        self._wishes = _Wishes({one.key: one.after for one in action.changes if one.key in OPTIONAL and one.after})
        self._fault: KafkaError | None = None

    def asked(self) -> AlterConfigs:
        left_out = self._wishes.left_out
        return replace(self._action, changes=tuple(one for one in self._action.changes if one.key not in left_out))

    def goes_on(self, fault: KafkaError | None) -> bool:
        self._fault = fault
        if fault is None or not self._wishes.concede(fault):
            return False
        if not self.asked().changes:
            self._fault = None
            return False
        return True

    def result(self) -> Changed:
        if self._fault is not None:
            return Changed(self._fault)
        note, what = self._wishes.note(), "it was altered" if self.asked().changes else "it stays"
        if note is not None:
            note = f"{what} {note}; config.properties.exclude leaves it to the target"
        return Changed(None, note, self._wishes.left_out)
