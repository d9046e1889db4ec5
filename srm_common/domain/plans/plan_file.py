"""A plan that was printed to a file, and what has changed since: a file is applied exactly as it is, or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from srm_common.domain.flow import OnDataLoss
from srm_common.domain.plans.plan import Plan
from srm_common.errors import ConfigError

_VERSION = 1
#: Parts of an action that explain it and may be worded anew without being another action.
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
                    f"the plan has version {document['plan']}, but only {_VERSION} is known; make it anew with "
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
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigError(
                "this is not a plan; make one with: srm-control plan --flow ... --out FILE", file=name
            ) from error

    def compare(self, now: Plan) -> PlanChanges:
        """The printed plan beside the one that would be made now.

        The file holds when what would be done now was printed, all of it. Less is fine: what is missing was done
        meanwhile, as by an earlier application of the same file.
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
        topics = {one.topic: one.remote_topic for one in now.accepted}
        changed += [f"{topic} is copied now" for topic in sorted(topics.keys() - self.topics.keys())]
        reasons = {one.topic: one.reason for one in now.decisions}
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
