"""The tasks of the DAGs that move consumer groups, as plain values: no Airflow here.

::

    check -> confirm -> last_pass -> stop -> drain -> translate -> apply -> verify -> ... -> report -> outcome

Each task is one step of the move (:class:`~srm_common.domain.moving.moves.StepName`), so that each can be watched, and
done again by itself when it failed; those that a mode does not have are skipped. ``confirm`` waits for a person.
``last_pass`` runs the flow's own DAG once more. ``report`` runs whatever happened before it, and ``outcome`` makes the
run fail when any task did.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from srm_common.domain.moving.moves import MODES, MoveKind, MoveMode, StepName

#: Not that of flows, which other pages list by theirs.
TAG = "srm-move"
RETRY_DELAY = timedelta(seconds=5)
#: Of a task; the last pass of a flow with a long lag takes its time.
STEP_TIMEOUT = timedelta(hours=6)
_RETRIES = 2


class MoveWork(StrEnum):
    """What a task does besides the steps of a move; also its task id."""

    CONFIRM = "confirm"
    LAST_PASS = "last_pass"
    RESUME = "resume"
    OUTCOME = "outcome"


@dataclass(frozen=True, slots=True)
class MoveTaskSpec:
    """One task: a step, or other work. ``always``: it runs when all tasks before it have ended, whatever their
    state."""

    work: StepName | MoveWork
    doc: str
    always: bool = False
    retries: int = _RETRIES

    @property
    def task_id(self) -> str:
        return self.work.value


@dataclass(frozen=True, slots=True)
class MoveDagSpec:
    """One DAG. ``modes`` are those to choose from, the first is the default; ``flow_help`` says which flow is asked
    for."""

    kind: MoveKind
    title: str
    flow_help: str
    doc: str
    modes: tuple[MoveMode, ...]
    tasks: tuple[MoveTaskSpec, ...]

    @property
    def dag_id(self) -> str:
        return self.kind.dag_id


#: What the form shows for a mode.
MODE_TITLES = {
    MoveMode.DISASTER: "disaster: the source may be gone",
    MoveMode.CONTROLLED: "controlled: producers and consumers are stopped, nothing is read twice",
    MoveMode.CONTINUOUS: "continuous: the consumers are stopped, producers keep running",
}
_DOCS = {
    StepName.CHECK: "Looks at both clusters, the flow's progress and the groups; changes nothing.",
    MoveWork.CONFIRM: "Waits for a person who approves or rejects what `check` found, under *Required Actions*; not in "
    "a dry run, and not where the run was started with *approved*.",
    MoveWork.LAST_PASS: "Runs the flow's own DAG once more, so that everything of the source is copied. The link "
    "*Run of the flow* leads to that run.",
    StepName.STOP: "Pauses the flow's DAG, ends its runs, and proves on Kafka that nothing copies.",
    StepName.DRAIN: "Waits until all that was written at the source is on the target.",
    StepName.TRANSLATE: "Determines where each group resumes, partition by partition.",
    StepName.APPLY: "Commits these offsets for the groups.",
    StepName.VERIFY: "Reads the committed offsets again and compares.",
    StepName.TURN: "Lets the flow in the other direction start after what was copied.",
    MoveWork.RESUME: "Lets flows copy again, each by its own DAG.",
    StepName.REPORT: "Reports what every step did and where each group resumes. Runs also when a step failed.",
    MoveWork.OUTCOME: "Succeeds when every task did; the run's state is its state.",
}
_ALL_MOVES = (
    StepName.CHECK,
    MoveWork.CONFIRM,
    MoveWork.LAST_PASS,
    StepName.STOP,
    StepName.DRAIN,
    StepName.TRANSLATE,
    StepName.APPLY,
    StepName.VERIFY,
)


def move_specs() -> Iterator[MoveDagSpec]:
    """The DAGs of this project that move groups."""
    yield MoveDagSpec(
        MoveKind.FAILOVER,
        "Moves consumer groups to the target of a flow",
        "Groups go from its source to its target.",
        _FAILOVER,
        MODES[MoveKind.FAILOVER],
        _tasks(),
    )
    yield MoveDagSpec(
        MoveKind.FAILBACK,
        "Moves consumer groups back to the source of a flow",
        "The flow that was failed over: groups go from its target back to its source.",
        _FAILBACK,
        MODES[MoveKind.FAILBACK],
        _tasks(MoveWork.RESUME),
    )
    yield MoveDagSpec(
        MoveKind.SWITCH_DIRECTION,
        "Moves everything to the target of a flow and reverses the flow",
        "The flow that ends: afterwards the one in the other direction copies.",
        _SWITCH,
        MODES[MoveKind.SWITCH_DIRECTION],
        _tasks(StepName.TURN, MoveWork.RESUME),
    )


def _tasks(*further: StepName | MoveWork) -> tuple[MoveTaskSpec, ...]:
    works = (*_ALL_MOVES, *further, StepName.REPORT, MoveWork.OUTCOME)
    return tuple(MoveTaskSpec(work, _DOCS[work], always=work is StepName.REPORT) for work in works)


_COMMON = """
Start it with *Trigger*; the form asks for flow, mode and groups. **Dry run** prints what would be done and changes
nothing. Each task is one step: its log says what it did, and its XCom `return_value` has the same as JSON. To repeat a
failed step, clear its task instance and the downstream ones; steps may be repeated at any time.

To pause flows, tasks use the credentials of the Airflow connection `srm_airflow`; without it they ask a person.
"""
_FAILOVER = f"""## Failover

Consumer groups resume at the target of a flow where they stopped at the source: no record is skipped.

- **disaster**: the source may be gone. It is not required.
- **controlled**: stop producers and consumers at the source first. Everything is copied, then groups are moved, and
  nothing is read twice. The flow's DAG stays paused.
- **continuous**: stop only the consumers; producers and the flow keep running.
{_COMMON}"""
_FAILBACK = f"""## Failback

After a failover: groups that read at the target of a flow (its copies, and what was produced there) return to its
source. Afterwards the flow copies again.
{_COMMON}"""
_SWITCH = f"""## Switch direction

The last step of a migration: everything is copied, the groups are moved, and the flow in the other direction takes
over, after what was copied: nothing is copied back. Stop producers and consumers at the source first.
{_COMMON}"""
