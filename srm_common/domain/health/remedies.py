"""What helps, for each state and each alarm: a sentence, a command, a button, and the place in docs/operations.md."""

from __future__ import annotations

from srm_common.domain.health.health import Action, AlarmKind, HealthState, Help


def anchor(what: HealthState | AlarmKind) -> str:
    """Of the entry's heading in docs/operations.md, as GitHub and Sphinx make it."""
    kind = "state" if isinstance(what, HealthState) else "alarm"
    return f"{kind}-{what.value.replace('_', '-')}"


def help_with(what: HealthState | AlarmKind, flow: str) -> Help:
    """The help for a state or an alarm of ``flow`` ("a->b")."""
    text, command, action = _STATES[what] if isinstance(what, HealthState) else _ALARMS[what]
    # In apostrophes: a shell takes the arrow for a redirection.
    return Help(text, command and command.replace("FLOW", f"'{flow}'"), action, anchor(what))


MEND_THE_FILE = "Mend what the sentence names; the flow goes on within a minute."

_Remedy = tuple[str, str | None, Action | None]

_STATES: dict[HealthState, _Remedy] = {
    HealthState.LOST_DATA: (
        "Raise the retention of the topic at the source, then decide by on.data.loss whether the flow goes on without "
        "the lost records.",
        "srm-control status --flow FLOW",
        None,
    ),
    HealthState.FAILING: (
        "Look at what the error names; the next run goes on from what is committed.",
        "srm-control status --flow FLOW",
        Action.RUN_NOW,
    ),
    HealthState.STALLED: (
        "See in Airflow whether its scheduler is at work and a run waits for a slot or a pool; or start a run.",
        "srm-control run --flow FLOW",
        Action.RUN_NOW,
    ),
    HealthState.UNKNOWN: (
        "Ask the clusters themselves, which needs neither the history nor Airflow.",
        "srm-control status --flow FLOW",
        None,
    ),
    HealthState.CATCHING_UP: (
        "Nothing, if it only began; if the lag keeps growing, raise tasks.max, or set run.max.seconds so that a run "
        "goes on reading.",
        "srm-control status --flow FLOW --watch",
        Action.RUN_NOW,
    ),
    HealthState.NOT_RUN: (
        "Start its first run, or wait for the schedule; if none comes, see in Airflow whether the flow's DAG is there "
        "and its scheduler at work.",
        "srm-control run --flow FLOW",
        Action.RUN_NOW,
    ),
    HealthState.RUNNING: ("Nothing to do.", "srm-control status --flow FLOW", None),
    HealthState.IDLE: (
        "Nothing to do; if records should be there, look at which topics the flow copies.",
        "srm-control topics --explain --flow FLOW",
        Action.EDIT_FILTERS,
    ),
    HealthState.HEARTBEAT_ONLY: (
        "Nothing, if the flow is only to show that its clusters are reached; else let the topics through that it is to "
        "copy: the command says why each of them is left out.",
        "srm-control topics --explain --flow FLOW",
        Action.EDIT_FILTERS,
    ),
    HealthState.PAUSED: ("Resume the flow when it is to copy again.", None, Action.RESUME),
}

_ALARMS: dict[AlarmKind, _Remedy] = {
    AlarmKind.LAG_OBJECTIVE: _STATES[HealthState.CATCHING_UP],
    AlarmKind.STALLED: _STATES[HealthState.STALLED],
    AlarmKind.HEARTBEAT_ABSENT: (
        "Look at the flow's runs, and at the log of its task emit_heartbeat.",
        "srm-control heartbeats --flow FLOW",
        None,
    ),
    AlarmKind.LOST_DATA: _STATES[HealthState.LOST_DATA],
    AlarmKind.UNTRANSLATED_GROUPS: (
        "See which partitions of these groups have no place on the target, and why, before anybody fails over.",
        "srm-control offsets --all-groups --flow FLOW",
        None,
    ),
    AlarmKind.FOREIGN_WRITER: (
        "Find who else writes to the copies, and take the right to write from it.",
        "srm-control check-copies --flow FLOW",
        None,
    ),
}
