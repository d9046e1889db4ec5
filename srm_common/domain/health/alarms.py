"""The alarms of a flow, by what was observed. Several may be raised at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from srm_common.domain.amount import Amount, counted, duration
from srm_common.domain.health.health import (
    Action,
    Alarm,
    AlarmKind,
    HealthState,
    Help,
    Observation,
    Severity,
    deadline_seconds,
    long_idle,
)
from srm_common.domain.monitoring.certificates import DAY_MS, due
from srm_common.domain.monitoring.flow_history import SHOWN_MS, TOPICS_NAMED
from srm_common.domain.runs.open_transaction import overdue, sentence

#: A certificate that ends so soon, or has ended, does not wait for the next working day.
_CRITICAL_DAYS = 3

# What helps, for each state and each alarm: a sentence, a command, a button, and the place in docs/operations.md.


def anchor(what: HealthState | AlarmKind) -> str:
    """The anchor of the entry's heading in docs/operations.md, as GitHub and Sphinx derive it."""
    kind = "state" if isinstance(what, HealthState) else "alarm"
    return f"{kind}-{what.value.replace('_', '-')}"


def help_with(what: HealthState | AlarmKind, flow: str) -> Help:
    """The help for a state or an alarm of ``flow`` ("a->b")."""
    text, command, action = _STATES[what] if isinstance(what, HealthState) else _ALARMS[what]
    # Quoted, since a shell takes the arrow for a redirection.
    return Help(text, command and command.replace("FLOW", f"'{flow}'"), action, anchor(what))


ENABLE = "Set its key enabled to true in the file and resume the flow when it should copy again."
MEND_THE_FILE = "Fix the error in the file; the flow continues within a minute."

_Remedy = tuple[str, str | None, Action | None]

_STATES: dict[HealthState, _Remedy] = {
    HealthState.LOST_DATA: (
        "Raise the retention of the topic at the source, then decide with on.data.loss whether the flow continues "
        "without the lost records.",
        "srm-control status --flow FLOW",
        None,
    ),
    HealthState.FAILING: (
        "Fix the cause of the error; the next run resumes from the committed offsets.",
        "srm-control status --flow FLOW",
        Action.RUN_NOW,
    ),
    HealthState.STALLED: (
        "Check in Airflow whether the scheduler is running, and whether a run waits for a slot or a pool; or start a "
        "run.",
        "srm-control run --flow FLOW",
        Action.RUN_NOW,
    ),
    HealthState.UNKNOWN: (
        "Query the clusters directly, which needs neither the history nor Airflow.",
        "srm-control status --flow FLOW",
        None,
    ),
    HealthState.CATCHING_UP: (
        "Nothing to do at first; if the lag keeps growing, raise tasks.max, or set run.max.seconds so that a run "
        "keeps reading.",
        "srm-control status --flow FLOW --watch",
        Action.RUN_NOW,
    ),
    HealthState.NOT_RUN: (
        "Start its first run, or wait for the schedule; if none starts, check in Airflow whether the flow's DAG exists "
        "and the scheduler is running; if runs have ended, whether their task report_lag writes to the metrics store "
        "that is read here (metrics.database.url).",
        "srm-control run --flow FLOW",
        Action.RUN_NOW,
    ),
    HealthState.RUNNING: ("Nothing to do.", "srm-control status --flow FLOW", None),
    HealthState.IDLE: (
        "Nothing to do; if there should be records, check which topics the flow copies.",
        "srm-control topics --explain --flow FLOW",
        Action.EDIT_FILTERS,
    ),
    HealthState.HEARTBEAT_ONLY: (
        "Nothing to do if the flow only monitors connectivity; otherwise include the topics that it should copy: the "
        "command says why each topic is excluded.",
        "srm-control topics --explain --flow FLOW",
        Action.EDIT_FILTERS,
    ),
    HealthState.PAUSED: ("Resume the flow when it should copy again.", None, Action.RESUME),
}

_ALARMS: dict[AlarmKind, _Remedy] = {
    AlarmKind.LAG_OBJECTIVE: _STATES[HealthState.CATCHING_UP],
    AlarmKind.STALLED: _STATES[HealthState.STALLED],
    AlarmKind.HEARTBEAT_ABSENT: (
        "Check the flow's runs, and the log of its task emit_heartbeat.",
        "srm-control heartbeats --flow FLOW",
        None,
    ),
    AlarmKind.LOST_DATA: _STATES[HealthState.LOST_DATA],
    AlarmKind.UNTRANSLATED_GROUPS: (
        "Before a failover, check which partitions of these groups cannot be translated to the target, and why.",
        "srm-control offsets --all-groups --flow FLOW",
        None,
    ),
    AlarmKind.FOREIGN_WRITER: (
        "Find out what else writes to the copies, and revoke its permission to write.",
        "srm-control check-copies --flow FLOW",
        None,
    ),
    AlarmKind.COPIES_DIFFER: (
        "Find out what changed the copies, and copy the differing records again: the command names each difference.",
        "srm-control verify --flow FLOW",
        None,
    ),
    AlarmKind.SKIPPED_RECORDS: (
        "Find out from the dead letter topic, or from the notes of the run, which records they are and which transform "
        "cannot handle them; fix what writes them, or the transform.",
        "srm-control transform --flow FLOW",
        None,
    ),
    AlarmKind.CERTIFICATE_EXPIRY: (
        "Renew the certificate before it ends: a broker's on the broker, the flow's own where the file or the "
        "connection names it, an authority's in the truststores of both; the next run takes the new one.",
        None,
        None,
    ),
    AlarmKind.OPEN_TRANSACTION: (
        "Restart the producer with the same transactional.id, or end its transaction with kafka-transactions.sh abort, "
        "before retention deletes what lies behind it.",
        None,
        None,
    ),
}


_KINDS = tuple(AlarmKind)


def raised(seen: Observation) -> list[Alarm]:
    """Critical ones first, then in the order of :class:`AlarmKind`; one of a kind at most.

    Of a paused flow nothing is due: neither runs nor heartbeats nor a lag, and it waits for no transaction. A flow of
    which it is unknown whether it is paused is taken to be active.
    """
    alarms = [*_always(seen), *([] if seen.paused else _while_due(seen))]
    return sorted(alarms, key=lambda alarm: (alarm.severity is not Severity.CRITICAL, _KINDS.index(alarm.kind)))


def records(count: int) -> str:
    """For people: "1 record", "12,345 records"."""
    return f"{count:,} record" + ("" if count == 1 else "s")


def behind(lag: Amount) -> str:
    """For people: "12 records behind", "at least 12 records behind, unknown in 1 of 3 partitions"."""
    if not lag.unknown:
        return f"{records(lag.least)} behind"
    return f"at least {records(lag.least)} behind, unknown in {lag.unknown} of {counted(lag.parts, 'partition')}"


def lost_records(seen: Observation) -> int:
    """The cost of the newest loss, while a partition stands still for it, and for a day after it was last seen."""
    recent = seen.lost_held > 0 or (seen.lost_ms is not None and seen.now_ms - seen.lost_ms < SHOWN_MS)
    return max(seen.lost_records, seen.last_run_lost_records) if recent or seen.last_run_lost_records else 0


def over_objective(seen: Observation) -> bool:
    """Whether the lag is more than ``lag.objective.records``; or was, as far as it was known, and may still be."""
    lag, objective = seen.lag, seen.lag_objective_records
    if objective is None:
        return False
    if lag is not None and lag.least > objective:
        return True
    return (lag is None or lag.most is None) and seen.lag_over_since_ms is not None


def over_by(seen: Observation) -> str:
    """How far a flow is behind that is over its objective: "12 records behind"."""
    return "behind by an unknown number of records" if seen.lag is None else behind(seen.lag)


def _while_due(seen: Observation) -> Iterator[Alarm]:
    if over_objective(seen):
        text = f"{seen.flow} is {over_by(seen)}; its objective is {seen.lag_objective_records:,}"
        text += ", which it exceeded when its lag was last known" if seen.lag is None else ""
        yield _alarm(seen, AlarmKind.LAG_OBJECTIVE, Severity.WARNING, text, seen.lag_over_since_ms)
    stalled = _stalled(seen)
    if stalled is not None:
        yield stalled
    if seen.heartbeat_silence is not None:
        yield _alarm(seen, AlarmKind.HEARTBEAT_ABSENT, Severity.WARNING, seen.heartbeat_silence, None)
    if late := overdue(seen.open_transactions, seen.now_ms, seen.open_transaction_alarm_seconds):
        text = f"{seen.flow} waits for an open transaction at the source: {sentence(late, seen.now_ms)}"
        yield _alarm(seen, AlarmKind.OPEN_TRANSACTION, Severity.CRITICAL, text, late[0].since_ms)


def _stalled(seen: Observation) -> Alarm | None:
    if seen.misconfigured is not None:
        text = f"{seen.flow} is disabled by the configuration: {seen.misconfigured}"
        return _alarm(seen, AlarmKind.STALLED, Severity.CRITICAL, text, None)
    # A deadline for good runs: one that fails again and again is as bad as none.
    allowed, good = deadline_seconds(seen), seen.good_run_ended_ms
    since = good if good is not None else seen.failing_since_ms or seen.last_run_ended_ms
    if seen.due_since_ms is not None:
        since = max(since or 0, seen.due_since_ms)
    if allowed is None or since is None or seen.now_ms - since <= allowed * 1000:
        return None
    if seen.last_run_ok is not False and _about_to_end(seen, allowed):
        return None
    why = f"; the last one failed: {seen.last_run_error}" if seen.last_run_ok is False and seen.last_run_error else ""
    why += f"; {seen.waiting}" if seen.waiting else ""
    text = (
        f"no run of {seen.flow} has succeeded for {duration(seen.now_ms - since)}, although one should every "
        f"{duration(allowed * 1000)}{why}"
    )
    made = _alarm(seen, AlarmKind.STALLED, Severity.CRITICAL, text, since)
    if seen.last_run_ok is not False:
        return made
    # Runs there are; what helps is what helps a flow that fails.
    return replace(made, help=replace(help_with(HealthState.FAILING, seen.flow), anchor=anchor(AlarmKind.STALLED)))


def _about_to_end(seen: Observation, allowed: float) -> bool:
    """Whether a run is active that may still succeed, or none has been active only for a moment."""
    if long_idle(seen):
        return False
    if seen.running_since_ms is not None:
        limit = seen.run_limit_seconds
        return limit is None or seen.now_ms - seen.running_since_ms <= (limit + allowed) * 1000
    return seen.quiet_since_ms is not None


def _always(seen: Observation) -> Iterator[Alarm]:
    lost = lost_records(seen)
    if lost:
        text = f"{records(lost)} of {seen.flow} disappeared at the source before they were copied"
        text += f": {seen.lost_text}" if seen.lost_text else ""
        loss = f"{lost} since {seen.lost_since_ms}"
        yield replace(_alarm(seen, AlarmKind.LOST_DATA, Severity.CRITICAL, text, seen.lost_since_ms), news=loss)
    if seen.untranslated_groups:
        text = f"{counted(seen.untranslated_groups, 'group')} of {seen.flow} cannot resume on the target"
        text += f": {seen.untranslated_text}" if seen.untranslated_text else ""
        yield _alarm(seen, AlarmKind.UNTRANSLATED_GROUPS, Severity.WARNING, text, None)
    if seen.foreign_writers is not None:
        text = f"copies of {seen.flow} have another writer: {seen.foreign_writers}"
        yield replace(_alarm(seen, AlarmKind.FOREIGN_WRITER, Severity.CRITICAL, text, None), news=text)
    if seen.copies_differ is not None:
        text = f"copies of {seen.flow} differ from what was committed: {seen.copies_differ}"
        yield replace(_alarm(seen, AlarmKind.COPIES_DIFFER, Severity.CRITICAL, text, None), news=text)
    if seen.skipped_ms is not None and seen.now_ms - seen.skipped_ms < SHOWN_MS:
        text = f"transforms of {seen.flow} could not handle {records(seen.skipped_records)}{_skipped_of(seen)}"
        text += f"; {_where_skipped(seen)}"
        text += f"; in the newest such run: {seen.skipped_text}" if seen.skipped_text else ""
        yield _alarm(seen, AlarmKind.SKIPPED_RECORDS, Severity.WARNING, text, seen.skipped_since_ms)
    if ending := due(seen.certificates, seen.now_ms, seen.certificate_warning_days):
        first = ending[0].ends_ms
        assert first is not None
        critical = first - seen.now_ms <= _CRITICAL_DAYS * DAY_MS
        text = f"connections of {seen.flow}: " + "; ".join(end.sentence(seen.now_ms) for end in ending)
        severity = Severity.CRITICAL if critical else Severity.WARNING
        yield _alarm(seen, AlarmKind.CERTIFICATE_EXPIRY, severity, text, None)


def _skipped_of(seen: Observation) -> str:
    named, others = seen.skipped_topics[:TOPICS_NAMED], seen.skipped_topics[TOPICS_NAMED:]
    last = "other topics" if others else named[-1] if named else ""
    first = ", ".join(named if others else named[:-1])
    return f" of {first} and {last}" if first else f" of {last}" if last else ""


def _where_skipped(seen: Observation) -> str:
    skipped, letters = seen.skipped_records, seen.dead_letters
    topic = f"the dead letter topic {seen.dead_letter_topic}".rstrip()
    if skipped == 1:
        return f"it is in {topic}" if letters else "it is not on the target"
    if letters:
        return f"{'all' if letters == skipped else f'{letters:,}'} of them are in {topic}"
    return "none of them is on the target"


def _alarm(seen: Observation, kind: AlarmKind, severity: Severity, text: str, since_ms: int | None) -> Alarm:
    return Alarm(kind, severity, seen.flow, text, since_ms, help_with(kind, seen.flow))
