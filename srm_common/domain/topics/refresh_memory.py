"""What ``refresh_topics`` remembers between runs: when it last did each job, what of it failed, and which settings it
changed.

MirrorMaker 2's three periodic jobs (topics, configurations, ACLs) have a switch and an interval each. They begin when
the process starts; here that is a flow's first run, and every change of the settings that decide about topics.

A job of which an action failed is done again after a minute, and then at growing intervals, the others as if nothing
had happened. The runs in between do not repeat it, but fail for the same reasons: that nothing was tried must not make
a flow look healthy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from srm_common.domain.flow import FlowSettings
from srm_common.domain.policy import policy_name
from srm_common.domain.topics.actions import ActionResult, AlterConfigs, Job

_DAY_MS = 86_400_000
#: Who undoes a change does so within minutes (an operator), hours or a day (a tool that runs each night).
_ALTERATIONS_KEPT_MS = 7 * _DAY_MS
_ALTERATIONS_KEPT = 5_000
#: A failed job is done again after this long, then after twice as long each time, up to its interval.
_FIRST_RETRY_SECONDS = 60.0
#: The longest pause of a job without an interval.
_LONGEST_RETRY_SECONDS = 600.0
#: Failures of a job that are remembered as sentences.
_SENTENCES = 20
#: A run that comes this much early counts for its period; schedulers are never exact.
_TOLERANCE = 0.05


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

    def made(self, topic: str, key: str, value: str | None) -> bool:
        """Whether it was this flow that has set the value."""
        return self.undone(topic, key, value) is not None

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


@dataclass(frozen=True, slots=True)
class Failure:
    """What failed when a job was last done, at ``tried_ms``, and before that ``times`` - 1 times without a change.

    ``count`` is the number of failures, ``sentences`` are the first of them, ``what`` is a digest of their topics.
    """

    times: int
    tried_ms: int
    count: int
    what: str
    sentences: tuple[str, ...]

    @classmethod
    def of(cls, found: Mapping[str, str], now_ms: int) -> Self:
        """``found`` are sentences by what they are about."""
        what = hashlib.sha256(repr(sorted(found)).encode()).hexdigest()[:16]
        return cls(1, now_ms, len(found), what, tuple(found.values())[:_SENTENCES])

    def after(self, earlier: Failure | None) -> Failure:
        """What failed before as well is waited for longer. Anything else is news, and so is that some of it is done."""
        return self if earlier is None or earlier.what != self.what else replace(self, times=earlier.times + 1)

    def beside(self, standing: Failure | None) -> Failure:
        """What was found while the job was not done again, together with what has failed of it before."""
        if standing is None:
            return self
        sentences = tuple(dict.fromkeys((*standing.sentences, *self.sentences)))
        count = max(standing.count, self.count, len(sentences))
        return replace(standing, count=count, sentences=sentences[:_SENTENCES])

    def pause_seconds(self, interval: float) -> float:
        """From the last attempt to the next one; ``interval`` is the job's, 0 where it has none."""
        longest = interval or _LONGEST_RETRY_SECONDS
        # Doubled often enough to reach any interval, and no further than floats go.
        return min(longest, _FIRST_RETRY_SECONDS * 2.0 ** min(self.times - 1, 32))


@dataclass(frozen=True)
class RefreshMemory:
    """``last_ms``: when each job was last done. ``failures``: what failed of it then. ``fingerprint``: of the settings
    it went by. ``decisions``: a digest of the decisions last written down."""

    last_ms: Mapping[Job, int] = field(default_factory=dict)
    fingerprint: str = ""
    alterations: Alterations = Alterations()
    decisions: str = ""
    failures: Mapping[Job, Failure] = field(default_factory=dict)

    def due(self, flow: FlowSettings, now_ms: int) -> frozenset[Job]:
        """What a run at ``now_ms`` has to do. A job is due at the first run, after a change of the flow's settings,
        when its interval is over, at each run where that is not longer than the period of runs, and when something that
        failed of it is to be tried again."""
        changed = self.fingerprint != fingerprint(flow)
        return frozenset(
            job
            for job, (switched_on, interval) in _jobs(flow).items()
            if (changed and (switched_on or job is Job.TOPICS))
            or (switched_on and self._is_over(job, interval, flow, now_ms))
            or self._retry_is_over(job, interval if switched_on else 0.0, flow, now_ms)
        )

    def next_seconds(self, flow: FlowSettings, now_ms: int) -> float | None:
        """Seconds until the first job is due; None when all are switched off and none has failed."""
        waits = [
            interval - (now_ms - self.last_ms.get(job, 0)) / 1000
            for job, (switched_on, interval) in _jobs(flow).items()
            if switched_on
        ]
        retry = self.retry_seconds(flow, now_ms)
        waits += [] if retry is None else [retry]
        return max(0.0, min(waits)) if waits else None

    def retry_seconds(self, flow: FlowSettings, now_ms: int) -> float | None:
        """Seconds until the first failed job is done again; None when none has failed."""
        waits = []
        for job, failure in self.standing(flow).items():
            switched_on, interval = _jobs(flow)[job]
            pause = failure.pause_seconds(interval if switched_on else 0.0)
            waits.append(pause - (now_ms - failure.tried_ms) / 1000)
        return max(0.0, min(waits)) if waits else None

    def standing(self, flow: FlowSettings) -> dict[Job, Failure]:
        """What has failed and still matters: not what belongs to a job that is switched off. Topics are made once even
        then."""
        jobs = _jobs(flow)
        return {job: failure for job, failure in self.failures.items() if jobs[job][0] or job is Job.TOPICS}

    def after(
        self,
        flow: FlowSettings,
        due: Iterable[Job],
        results: Iterable[ActionResult],
        now_ms: int,
        *,
        lost: Mapping[str, str] | None = None,
    ) -> RefreshMemory:
        """What to remember after a refresh.

        Args:
            due: what was done; nothing if the refresh left something of it out, which then remains due.
            lost: a sentence about each topic that is not copied until an operator decides.
        """
        results, done = list(results), frozenset(due)
        found: dict[Job, dict[str, str]] = {Job.TOPICS: dict(lost)} if lost else {}
        for result in results:
            if result.error is not None:
                action = result.action
                found.setdefault(action.job, {})[f"{action.kind} {action.cluster} {action.topic}"] = str(result)
        failures = {job: failure for job, failure in self.standing(flow).items() if job not in done}
        for job, sentences in found.items():
            failure = Failure.of(sentences, now_ms)
            # Where it was not the job's turn, what failed of it before still stands, and is not put off.
            failures[job] = failure.after(self.failures.get(job)) if job in done else failure.beside(failures.get(job))
        return replace(
            self,
            last_ms={**self.last_ms, **dict.fromkeys(done, now_ms)},
            fingerprint=fingerprint(flow) if done else self.fingerprint,
            alterations=self.alterations.and_done(results, now_ms),
            failures=failures,
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
            "failures": {
                str(job): [one.times, one.tried_ms, one.count, one.what, list(one.sentences)]
                for job, one in self.failures.items()
            },
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
                {
                    Job(job): Failure(int(times), int(tried), int(count), str(what), tuple(map(str, sentences)))
                    for job, (times, tried, count, what, sentences) in document.get("failures", {}).items()
                },
            )
        except (TypeError, ValueError, AttributeError, OverflowError):
            return cls()

    def _is_over(self, job: Job, interval: float, flow: FlowSettings, now_ms: int) -> bool:
        if interval <= flow.schedule_interval_seconds or job not in self.last_ms:
            return True
        passed = (now_ms - self.last_ms[job]) / 1000
        # A clock that was set back must not switch the job off.
        return passed >= interval * (1 - _TOLERANCE) or passed < 0

    def _retry_is_over(self, job: Job, interval: float, flow: FlowSettings, now_ms: int) -> bool:
        failure = self.standing(flow).get(job)
        if failure is None:
            return False
        passed = (now_ms - failure.tried_ms) / 1000
        return passed >= failure.pause_seconds(interval) * (1 - _TOLERANCE) or passed < 0


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
        *((True,) if flow.acl_replicator_superuser else ()),
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
