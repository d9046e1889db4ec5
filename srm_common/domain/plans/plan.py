"""A plan: every decision on the source's topics, and the resulting actions. A value that is printed, compared, stored
and applied; :mod:`srm_common.domain.plans.planning` makes it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from srm_common.domain.amount import counted
from srm_common.domain.flow import FlowName, OnDataLoss
from srm_common.domain.topics.actions import Action, ActionResult, failed
from srm_common.domain.topics.lifecycle import LOSSES
from srm_common.domain.topics.selection import TopicDecision
from srm_common.errors import ConfigError

_LINES = 500


@dataclass(frozen=True)
class Plan:
    """Decisions on all topics of the source, and the actions that follow from them, in the order they are done.

    ``notices`` are facts that an operator should know and no action fixes. The cluster ids identify the clusters of the
    plan; empty if a cluster does not return its id. ``restore`` is what was chosen for single topics whose copies are
    lost, by upstream topic.
    """

    flow: FlowName
    decisions: tuple[TopicDecision, ...]
    actions: tuple[Action, ...] = ()
    notices: tuple[str, ...] = ()
    source_cluster_id: str = ""
    target_cluster_id: str = ""
    restore: Mapping[str, OnDataLoss] = field(default_factory=dict)

    @property
    def accepted(self) -> tuple[TopicDecision, ...]:
        return tuple(decision for decision in self.decisions if decision.accepted)

    @property
    def lost(self) -> tuple[TopicDecision, ...]:
        """Topics that are not copied before an operator decides, because their copies, or their records, are lost."""
        return tuple(decision for decision in self.decisions if decision.code in LOSSES)

    def with_more(self, actions: Iterable[Action], notices: Iterable[str] = ()) -> Plan:
        """This plan, and then these."""
        return replace(self, actions=(*self.actions, *actions), notices=(*self.notices, *notices))

    def to_json(self) -> dict[str, Any]:
        """Plain values, ready for ``json.dumps``."""
        return {
            "flow": str(self.flow),
            "source_cluster_id": self.source_cluster_id,
            "target_cluster_id": self.target_cluster_id,
            "restore": {topic: str(choice) for topic, choice in self.restore.items()},
            "actions": [action.to_json() for action in self.actions],
            "notices": list(self.notices),
            "topics": [decision.to_json() for decision in self.decisions],
        }

    def render(self) -> str:
        """The plan as text, actions first, no more than a log can hold."""
        lines = [f"{self.flow}: {counted(len(self.accepted), 'topic')} of {len(self.decisions)} copied"]
        lines += [f"  {action}" for action in self.actions[:_LINES]] or ["  nothing to do"]
        if len(self.actions) > _LINES:
            lines.append(f"  ... and {len(self.actions) - _LINES} more; srm-control plan shows all")
        lines += [f"  not copied: {decision.topic}: {decision.reason}" for decision in self.lost]
        lines += [f"  note: {notice}" for notice in self.notices]
        return "\n".join(lines)


_VERSION = 1
#: Parts of an action that explain it and may be reworded without being another action.
_EXPLAINING = frozenset({"reason", "reasons", "text"})


@dataclass(frozen=True)
class PlanChanges:
    """``changed`` are sentences about what is different now; with any, the file must not be applied. ``done`` are the
    actions of the file, as text, that are not needed any more."""

    changed: tuple[str, ...] = ()
    done: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlanFile:
    """What a file says. ``topics`` are the copied ones with the names of their copies; ``made_ms`` since the epoch.
    ``restore`` are the choices that the plan was made with."""

    flow: str
    made_ms: int
    source_cluster_id: str
    target_cluster_id: str
    actions: tuple[Mapping[str, Any], ...]
    topics: Mapping[str, str]
    restore: Mapping[str, OnDataLoss] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, name: str) -> Self:
        """Read what :func:`plan_file_text` wrote. Raises :class:`ConfigError` that names the file."""
        try:
            document = json.loads(text)
            if document["plan"] != _VERSION:
                raise ConfigError(
                    f"the plan has version {document['plan']}, but only {_VERSION} is known; create it again with "
                    "srm-control plan --out",
                    file=name,
                )
            return cls(
                str(document["flow"]),
                int(document["made_ms"]),
                str(document["source_cluster_id"]),
                str(document["target_cluster_id"]),
                tuple(dict(action) for action in document["actions"]),
                {one["topic"]: one["remote_topic"] for one in document["topics"] if one["accepted"]},
                {topic: OnDataLoss(choice) for topic, choice in document["restore"].items()},
            )
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise ConfigError(
                "this is not a plan; create one with: srm-control plan --flow ... --out FILE", file=name
            ) from error

    def compare(self, now: Plan) -> PlanChanges:
        """The printed plan compared with the one that would be made now. The file is valid if it contains everything
        that would be done now. It may contain more: the rest has been done since, for example by an earlier application
        of the same file.
        """
        if self.flow != str(now.flow):
            return PlanChanges((f"the file is a plan of {self.flow}, not of {now.flow}",))
        changed = []
        for side, before, after in (
            ("source", self.source_cluster_id, now.source_cluster_id),
            ("target", self.target_cluster_id, now.target_cluster_id),
        ):
            if before != after:
                changed.append(f"the {side} is another cluster (id {after} instead of {before})")
        topics = {decision.topic: decision.remote_topic for decision in now.accepted}
        changed += [f"{topic} is copied now" for topic in sorted(topics.keys() - self.topics.keys())]
        reasons = {decision.topic: decision.reason for decision in now.decisions}
        changed += [
            f"{topic} is not copied now: {reasons.get(topic, 'it is gone from the source')}"
            for topic in sorted(self.topics.keys() - topics.keys())
        ]
        printed = {_same(action): action for action in self.actions}
        wanted = {_same(action.to_json()): action for action in now.actions}
        changed += [f"not in the file: {action}" for key, action in wanted.items() if key not in printed]
        done = [str(action.get("text", action)) for key, action in printed.items() if key not in wanted]
        if changed:
            changed += [f"in the file only: {text}" for text in done]
            return PlanChanges(tuple(changed))
        return PlanChanges((), tuple(done))


def plan_file_text(plan: Plan, made_ms: int) -> str:
    """A plan for :meth:`PlanFile.parse`; also for people, and for review in a repository."""
    document = {"plan": _VERSION, "made_ms": made_ms, **plan.to_json()}
    document["actions"] = [{"text": str(action), **action.to_json()} for action in plan.actions]
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _same(action: Mapping[str, Any]) -> str:
    kept = {key: value for key, value in action.items() if key not in _EXPLAINING}
    return json.dumps(kept, sort_keys=True)


#: Actions, and notices, that are kept; a first plan of thousands needs no second copy of the topics.
_ACTIONS_KEPT = 500
_NOTES = 20


def plan_record(plan: Plan, results: Sequence[ActionResult], now_ms: int) -> dict[str, Any]:
    """A carried out plan as plain values: failed actions first."""
    more = len(plan.notices) - _ACTIONS_KEPT
    ordered = sorted(results, key=lambda result: result.error is None)
    return {
        "made_ms": now_ms,
        "copied": len(plan.accepted),
        "topics": len(plan.decisions),
        "failed": len(failed(results)),
        "lost": [f"{decision.topic}: {decision.reason}" for decision in plan.lost],
        "actions": [{"text": str(result), **result.to_json()} for result in ordered[:_ACTIONS_KEPT]],
        "actions_left_out": max(0, len(results) - _ACTIONS_KEPT),
        "notices": [*plan.notices[:_ACTIONS_KEPT], *([f"{more} more notes"] if more > 0 else [])],
    }


def plan_notes(record: Mapping[str, Any] | None, since_ms: int) -> list[str]:
    """The plan in sentences for a run record, when it was made after ``since_ms``, the start of the run before."""
    if record is None or record["made_ms"] < since_ms:
        return []
    notes = [action["text"] for action in record["actions"]]
    left_out = len(notes) - _NOTES + int(record["actions_left_out"])
    more = [f"{left_out} more changes of topics"] if left_out > 0 else []
    return ["refresh_topics: " + note for note in (*notes[:_NOTES], *more, *record["notices"][:_NOTES])]
