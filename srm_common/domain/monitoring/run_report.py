"""The report of one run, for the metrics store, Airflow's metrics and the raw metrics topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from typing import Any, Self

from srm_common.domain.amount import Amount, counted
from srm_common.domain.document import known_fields, reading
from srm_common.domain.monitoring.certificates import CertificateEnd
from srm_common.domain.monitoring.heartbeat_report import HeartbeatReport
from srm_common.domain.offsets.checkpoints import Untranslated
from srm_common.domain.runs.run_record import RunRecord, RunState
from srm_common.domain.verification.summary import VerificationSummary

_VERSION = 1
#: Runs are further apart than clocks that are synchronized.
_AGREE_MS = 1_000


@dataclass(frozen=True, slots=True)
class GroupSample:
    """One consumer group after a round of checkpoints.

    ``positions`` topic partitions that the group has committed at the source within the flow; ``translated`` of them
    have a place on the target. ``reason`` is why not all have, one sentence, else None. ``synced``: its offsets are
    committed on the target by the flow (``sync.group.offsets.enabled``). ``checkpoint_latency_ms`` is from reading its
    offsets to the acknowledged checkpoint, None where none was written. ``checkpoint_ms``: when that was.
    """

    group: str
    positions: int
    translated: int
    reason: str | None = None
    synced: bool = False
    checkpoint_latency_ms: float | None = None
    checkpoint_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TopicGroups:
    """Consumer groups of one upstream topic after a round of checkpoints.

    ``groups`` have a position on it. ``checkpointed`` of them got a checkpoint for it at ``checkpoint_ms``, after so
    long: ``latency_ms_min`` and ``_max``, ``latency_ms_sum`` of all.
    """

    topic: str
    groups: int
    checkpointed: int = 0
    checkpoint_ms: int | None = None
    latency_ms_min: float = 0.0
    latency_ms_max: float = 0.0
    latency_ms_sum: float = 0.0

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> Self:
        """From ``astuple``, even of a newer version with additional fields. Raises TypeError."""
        return cls(*row[: len(fields(cls))])


@dataclass(frozen=True, slots=True)
class ClockSkew:
    """How far the source's clock is ahead of this host's (``source_ms``), and the target's (``target_ms``); None where
    it is unknown. ``uncertainty_ms`` is the larger of both measurements' errors."""

    source_ms: float | None = None
    target_ms: float | None = None
    uncertainty_ms: float | None = None

    @property
    def correction_ms(self) -> int:
        """What to add to this host's time so that one clock that is wrong does not count: the middle one of the three;
        if only one cluster's is known, that, since all reports of the flow have it in common. 0 where they agree to
        within a second."""
        clusters = [ahead_ms for ahead_ms in (self.source_ms, self.target_ms) if ahead_ms is not None]
        if not clusters:
            return 0
        middle = clusters[0] if len(clusters) == 1 else sorted((0.0, *clusters))[1]
        return round(middle) if abs(middle) > _AGREE_MS + (self.uncertainty_ms or 0) else 0


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run of one flow as it was reported at ``reported_ms`` (epoch milliseconds, by the host's clock with
    :attr:`ClockSkew.correction_ms`).

    ``fault`` says, in one sentence, why the run left no record of its own, or did not finish it. ``run`` has then
    failed with it: its partitions stand where an earlier run left them, with the source's ends of this moment; it is
    None where there is no earlier run either, or it could not be queried. ``warnings`` need attention
    although the flow copies. ``decisions``, ``plan`` and ``filters`` are the JSON documents that the flow keeps of
    itself (``srm-flow-state``), None where they are not known. They are in each report, changed or not: a store may be
    new, and who reads reports from a topic may begin with any of them.
    ``topic_groups`` are the topics that groups have positions on, None before the first round of checkpoints.
    ``foreign_writers``: a sentence about records in the copies that the flow did not write, None where none are known.
    ``verification``: what verifications of the copies have come to, None where there was none.
    ``verified``: the newest result of each partition
    (:func:`srm_common.domain.verification.summary.results_table`), None likewise.
    ``data_topics``: how many topics the flow copies that are not heartbeats, ``data_records`` how many records of these
    the run copied; None where that is not known. ``heartbeat_lag``: the part of the lag that is heartbeats.
    ``certificates``: of each cluster that could be asked, which certificate ends first.
    """

    flow: str
    run_id: str
    reported_ms: int
    run: RunRecord | None
    fault: str | None = None
    warnings: tuple[str, ...] = ()
    heartbeats: HeartbeatReport | None = None
    groups: tuple[GroupSample, ...] = ()
    clock: ClockSkew = ClockSkew()
    schedule_interval_seconds: float | None = None
    lag_objective_records: int | None = None
    decisions: Mapping[str, Any] | None = None
    plan: Mapping[str, Any] | None = None
    filters: Mapping[str, Any] | None = None
    foreign_writers: str | None = None
    verification: VerificationSummary | None = None
    verified: Mapping[str, Any] | None = None
    topic_groups: tuple[TopicGroups, ...] | None = None
    data_topics: int | None = None
    data_records: int | None = None
    heartbeat_lag: int = 0
    certificates: tuple[CertificateEnd, ...] = ()

    @property
    def ok(self) -> bool | None:
        """Whether the run copied all there was; None while it is active."""
        if self.fault is not None or self.run is None:
            return False
        return None if self.run.state is RunState.RUNNING else self.run.state is RunState.DONE

    @property
    def ended_ms(self) -> int:
        """When the run ended, as far as known; not after it was reported, whatever the clock of its host said."""
        finished_ms = self.run.finished_ms if self.run is not None else None
        return min(finished_ms or self.reported_ms, self.reported_ms)

    @property
    def run_error(self) -> str | None:
        """What stopped the run as a whole, one sentence."""
        if self.run is None:
            return self.fault or "the run left no record"
        return self.fault or self.run.error

    @property
    def error(self) -> str | None:
        """The same, else what the first partition failed with."""
        failed = () if self.run is None else self.run.failed_partitions
        return self.run_error or next((record.trouble for record in failed), None)

    @property
    def has_figures(self) -> bool:
        """Whether it has the state of partitions; a run that could not start does not."""
        return self.run is not None and (bool(self.run.partitions) or self.run.error is None)

    @property
    def tells_groups(self) -> bool:
        """Whether its groups are all there are; it has none if they could not be listed."""
        return bool(self.groups) or self.has_figures

    @property
    def lag(self) -> Amount | None:
        """Offsets that are not copied yet; None where the run could not look."""
        return self.run.backlog if self.run is not None and self.has_figures else None

    def to_json(self) -> dict[str, Any]:
        """What ``json.dumps`` takes; groups as rows under one header, since there may be thousands."""
        out: dict[str, Any] = {"version": _VERSION, "group_columns": list(_COLUMNS)}
        for one in fields(self):
            out[one.name] = getattr(self, one.name)
        out["run"] = None if self.run is None else self.run.to_json()
        out["warnings"] = list(self.warnings)
        out["heartbeats"] = None if self.heartbeats is None else self.heartbeats.to_json()
        out["groups"] = [list(astuple(group)) for group in self.groups]
        out["topic_groups"] = (
            None if self.topic_groups is None else [list(astuple(topic_group)) for topic_group in self.topic_groups]
        )
        out["clock"] = {one.name: getattr(self.clock, one.name) for one in fields(self.clock)}
        out["certificates"] = [list(astuple(certificate)) for certificate in self.certificates]
        out["verification"] = None if self.verification is None else self.verification.to_json()
        for name in ("decisions", "plan", "filters", "verified"):
            document = getattr(self, name)
            out[name] = None if document is None else dict(document)
        return out

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` made, also by a newer minor version: unknown fields are left out.

        Raises:
            CorruptRecord: it is not a report, or of a version that is not known.
        """
        with reading(document, "the report of a run", _VERSION):
            values = known_fields(cls, document)
            run, beats = document["run"], document["heartbeats"]
            values["run"] = None if run is None else RunRecord.from_json(run)
            values["warnings"] = tuple(document["warnings"])
            values["heartbeats"] = None if beats is None else HeartbeatReport.from_json(beats)
            columns = document["group_columns"]
            values["groups"] = tuple(
                GroupSample(**known_fields(GroupSample, dict(zip(columns, row, strict=True))))
                for row in document["groups"]
            )
            if (topics := values.get("topic_groups")) is not None:
                values["topic_groups"] = tuple(map(TopicGroups.of_row, topics))
            values["certificates"] = tuple(map(CertificateEnd.of_row, document.get("certificates", ())))
            values["clock"] = ClockSkew(**known_fields(ClockSkew, document["clock"]))
            verification = document.get("verification")
            values["verification"] = None if verification is None else VerificationSummary.from_json(verification)
            return cls(**values)


def untranslated(groups: Iterable[GroupSample]) -> tuple[int, str | None]:
    """How many groups have positions without a place on the target; and the first one's reason, in a sentence."""
    samples = [group for group in groups if group.translated < group.positions]
    if not samples:
        return 0, None
    first = min(samples, key=lambda one: one.group)
    missing = first.positions - first.translated
    reason = first.reason or "no reason known"
    return len(samples), f"{first.group} on {missing} of {first.positions} partitions: {reason}"


# Samples of groups, as the flow's state keeps them between rounds of checkpoints.


#: Enough for a page; a record has to fit into a message.
_ROWS = 5_000
_COLUMNS = tuple(field.name for field in fields(GroupSample))


@dataclass(frozen=True, slots=True)
class CheckpointRound:
    """What one round of checkpoints found out about groups.

    ``positions`` by group, ``untranslated`` those without a place on the target. ``latencies_ms`` of the groups that
    got a checkpoint at ``at_ms``. ``topics``: groups with a position, by upstream topic; those that got a checkpoint
    for it are in ``checkpointed``, as (group, topic). ``synced`` are the groups whose offsets are committed on the
    target, None where that was not due.
    """

    at_ms: int
    positions: Mapping[str, int]
    untranslated: Sequence[Untranslated]
    latencies_ms: Mapping[str, float]
    synced: Collection[str] | None = None
    topics: Mapping[str, Collection[str]] = field(default_factory=dict)
    checkpointed: Collection[tuple[str, str]] = ()

    def topic_groups(self, before: Iterable[TopicGroups] | None) -> list[TopicGroups]:
        """Each topic with a position, sorted; whatever this round lacks is as in ``before``."""
        known = {topic_groups.topic: topic_groups for topic_groups in before or ()}
        out = []
        for topic, groups in sorted(self.topics.items()):
            found = [self.latencies_ms[group] for group in groups if (group, topic) in self.checkpointed]
            if found:
                figures = (round(figure, 1) for figure in (min(found), max(found), sum(found)))
                out.append(TopicGroups(topic, len(groups), len(found), self.at_ms, *figures))
            else:
                out.append(replace(known.get(topic, TopicGroups(topic, 0)), groups=len(groups)))
        return out

    def samples(self, before: Iterable[GroupSample]) -> list[GroupSample]:
        """Each group with a position; whatever this round lacks is as in ``before``, the samples of the last round."""
        missing: dict[str, list[Untranslated]] = defaultdict(list)
        for row in self.untranslated:
            missing[row.group].append(row)
        known = {sample.group: sample for sample in before}
        nothing = GroupSample("", 0, 0)
        out = []
        for group, positions in self.positions.items():
            last, rows = known.get(group, nothing), missing.get(group, [])
            latency = self.latencies_ms.get(group)
            out.append(
                GroupSample(
                    group=group,
                    positions=positions,
                    translated=max(0, positions - len(rows)),
                    reason=_reason(rows),
                    synced=last.synced if self.synced is None else group in self.synced,
                    checkpoint_latency_ms=last.checkpoint_latency_ms if latency is None else round(latency, 1),
                    checkpoint_ms=last.checkpoint_ms if latency is None else self.at_ms,
                )
            )
        return out


def _reason(rows: Sequence[Untranslated]) -> str | None:
    if not rows:
        return None
    first = rows[0]
    place = f"{first.topic}-{first.partition}"
    if len(rows) == 1:
        return f"{place}: {first.reason}"
    return f"{counted(len(rows), 'position')} without a place, the first {place}: {first.reason}"


def groups_record(samples: Iterable[GroupSample], topics: Iterable[TopicGroups] = ()) -> dict[str, Any]:
    """Plain values; groups that are not translated completely come first when there are more than 5,000."""
    rows = sorted(samples, key=lambda one: (one.translated >= one.positions, one.group))
    return {
        "columns": list(_COLUMNS),
        "rows": [list(astuple(row)) for row in rows[:_ROWS]],
        "left_out": max(0, len(rows) - _ROWS),
        "topics": [list(astuple(topic)) for topic in topics],
    }


def groups_from(record: Any) -> tuple[GroupSample, ...]:
    """The samples in a record; none where there is no record, or one of another form."""
    try:
        return tuple(
            GroupSample(**known_fields(GroupSample, dict(zip(record["columns"], row, strict=True))))
            for row in record["rows"]
        )
    except (KeyError, TypeError, ValueError):
        return ()


def topics_from(record: Any) -> tuple[TopicGroups, ...] | None:
    """The topics in a record; None without a record, or if it has no topics."""
    try:
        return tuple(map(TopicGroups.of_row, record["topics"]))
    except (KeyError, TypeError, ValueError):
        return None
