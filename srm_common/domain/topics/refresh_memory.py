"""What ``refresh_topics`` remembers between runs: when it last did each job, and which settings it changed.

MirrorMaker 2's three periodic jobs (topics, configurations, ACLs) have a switch and an interval each. They begin when
the process starts; here that is a flow's first run, and every change of the settings that decide about topics.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from srm_common.domain.flow import FlowSettings
from srm_common.domain.policy import policy_name
from srm_common.domain.topics.actions import ActionResult, AlterConfigs

_DAY_MS = 86_400_000
#: Who undoes a change does so within minutes (an operator), hours or a day (a tool that runs each night).
_ALTERATIONS_KEPT_MS = 7 * _DAY_MS
_ALTERATIONS_KEPT = 5_000
#: A run that comes this much early counts for its period; schedulers are never exact.
_TOLERANCE = 0.05


class Job(StrEnum):
    """A part of a refresh that has its own switch and interval."""

    TOPICS = "topics"
    CONFIGS = "configs"
    ACLS = "acls"
    SCHEMAS = "schemas"


EVERYTHING = frozenset(Job)


@dataclass(frozen=True, slots=True)
class Alteration:
    """A setting of a remote topic that was changed to ``after`` (None: its own value removed), ``times`` times."""

    after: str | None
    times: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True)
class Alterations:
    """The changes of the last days by (topic, key): a change that is needed again was reverted."""

    by_setting: Mapping[tuple[str, str], Alteration] = field(default_factory=dict)

    def undone(self, topic: str, key: str, after: str | None) -> Alteration | None:
        """The earlier change to the same value, None when there was none."""
        alteration = self.by_setting.get((topic, key))
        return alteration if alteration is not None and alteration.after == after else None

    def and_done(self, results: Iterable[ActionResult], now_ms: int) -> Alterations:
        """These, the successful ones among ``results``, and nothing that is too old."""
        kept = {place: one for place, one in self.by_setting.items() if now_ms - one.last_ms < _ALTERATIONS_KEPT_MS}
        for result in results:
            if result.error is not None or not isinstance(result.action, AlterConfigs):
                continue
            for change in result.action.changes:
                if change.key in result.left_out:
                    continue
                earlier = self.undone(result.action.topic, change.key, change.after)
                kept[result.action.topic, change.key] = (
                    Alteration(change.after, 1, now_ms, now_ms)
                    if earlier is None
                    else replace(earlier, times=earlier.times + 1, last_ms=now_ms)
                )
        newest = sorted(kept.items(), key=lambda item: item[1].last_ms)[-_ALTERATIONS_KEPT:]
        return Alterations(dict(newest))


@dataclass(frozen=True)
class RefreshMemory:
    """``last_ms``: when each job was last done, empty when something failed since. ``fingerprint``: of the settings it
    went by. ``decisions``: a digest of the decisions last written down."""

    last_ms: Mapping[Job, int] = field(default_factory=dict)
    fingerprint: str = ""
    alterations: Alterations = Alterations()
    decisions: str = ""

    def due(self, flow: FlowSettings, now_ms: int) -> frozenset[Job]:
        """What a run at ``now_ms`` has to do. A job is due at the first run, after a change of the flow's settings,
        when its interval is over, and at each run where that is not longer than the period of runs."""
        changed = self.fingerprint != fingerprint(flow)
        return frozenset(
            job
            for job, (switched_on, interval) in _jobs(flow).items()
            if (changed and (switched_on or job is Job.TOPICS))
            or (switched_on and self._is_over(job, interval, flow, now_ms))
        )

    def next_seconds(self, flow: FlowSettings, now_ms: int) -> float | None:
        """Seconds until the first job is due; None when all are switched off."""
        waits = [
            interval - (now_ms - self.last_ms.get(job, 0)) / 1000
            for job, (switched_on, interval) in _jobs(flow).items()
            if switched_on
        ]
        return max(0.0, min(waits)) if waits else None

    def after(
        self,
        flow: FlowSettings,
        due: Iterable[Job],
        results: Iterable[ActionResult],
        now_ms: int,
        *,
        unsettled: bool = False,
    ) -> RefreshMemory:
        """What to remember after a refresh. With a failed action, or something ``unsettled``, the next run does
        everything again, and fails again: an interval must not make it look healthy."""
        results = list(results)
        alterations = self.alterations.and_done(results, now_ms)
        if unsettled or any(result.error is not None for result in results):
            return replace(self, last_ms={}, alterations=alterations)
        return replace(
            self,
            last_ms={**self.last_ms, **dict.fromkeys(due, now_ms)},
            fingerprint=fingerprint(flow),
            alterations=alterations,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values; the inverse of :meth:`from_json`."""
        return {
            "last_ms": {str(job): when for job, when in self.last_ms.items()},
            "fingerprint": self.fingerprint,
            "alterations": [
                [topic, key, one.after, one.times, one.first_ms, one.last_ms]
                for (topic, key), one in self.alterations.by_setting.items()
            ],
            "decisions": self.decisions,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any] | None) -> Self:
        """Read plain values; what cannot be read is forgotten, which costs one refresh."""
        try:
            document = found or {}
            return cls(
                {Job(job): int(when) for job, when in document.get("last_ms", {}).items()},
                str(document.get("fingerprint", "")),
                Alterations(
                    {
                        (topic, key): Alteration(after, int(times), int(first), int(last))
                        for topic, key, after, times, first, last in document.get("alterations", ())
                    }
                ),
                str(document.get("decisions", "")),
            )
        except (TypeError, ValueError, AttributeError, OverflowError):
            return cls()

    def _is_over(self, job: Job, interval: float, flow: FlowSettings, now_ms: int) -> bool:
        if interval <= flow.schedule_interval_seconds or job not in self.last_ms:
            return True
        passed = (now_ms - self.last_ms[job]) / 1000
        # A clock that was set back must not switch the job off.
        return passed >= interval * (1 - _TOLERANCE) or passed < 0


def fingerprint(flow: FlowSettings) -> str:
    """A digest of every setting that decides what a refresh does: an edit of any acts at the next run."""
    decisive = (
        flow.topics,
        flow.topics_exclude,
        flow.config_properties_exclude,
        flow.topic_filter_class and flow.topic_filter_class.path,
        flow.config_property_filter_class and flow.config_property_filter_class.path,
        policy_name(flow.policy),
        flow.use_defaults_from,
        flow.replication_factor,
        flow.heartbeats_replication,
        flow.emit_heartbeats,
        flow.source.bootstrap_servers,
        flow.target.bootstrap_servers,
        flow.acl_replicator_principals,
        flow.source.schema_registry,
        flow.target.schema_registry,
        flow.schemas_subjects,
        flow.schemas_subjects_exclude,
        flow.schemas_context,
        *((flow.schemas_ids,) if flow.maps_schema_ids else ()),
        flow.schemas_compatibility,
        *_jobs(flow).values(),
    )
    return hashlib.sha256(repr(decisive).encode()).hexdigest()[:16]


def _jobs(flow: FlowSettings) -> dict[Job, tuple[bool, float]]:
    """Whether each is switched on, and its interval in seconds; a negative one turns it off."""
    jobs = {
        Job.TOPICS: (flow.refresh_topics, flow.refresh_topics_interval_seconds),
        Job.CONFIGS: (flow.sync_topic_configs, flow.sync_topic_configs_interval_seconds),
        Job.ACLS: (flow.sync_topic_acls, flow.sync_topic_acls_interval_seconds),
        Job.SCHEMAS: (flow.sync_schemas, flow.sync_schemas_interval_seconds),
    }
    return {job: (switch and interval >= 0, interval) for job, (switch, interval) in jobs.items()}
