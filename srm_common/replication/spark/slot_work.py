"""What a Spark task does: it copies one slot and reports.

Invariant: a slot copies only in the first attempt of its task. When Spark retries a task, the worker of the first
attempt may still be alive and use the same producer; the second attempt copies nothing and says so.
"""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from srm_common.domain.runs.copying import CopyJob, RangeResult, SlotResult, SlotTask
from srm_common.errors import SrmError
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.replication.slots.range_transforms import SqlAccess
from srm_common.replication.slots.slot import copy_slot
from srm_common.replication.spark.build import SameBuild, as_nothing, as_row, as_value
from srm_common.replication.spark.sql_channel import SqlChannel, SqlPipe, relay, waited_for

if TYPE_CHECKING:
    import pyarrow as pa

#: Takes a way to Spark SQL as ``sql``, too, where the flow has statements.
CopySlot = Callable[..., SlotResult]


#: Of this Python worker, which Spark keeps for a later task.
_POOL = LinkPool(one_loop=True)


def copy_in_worker(job: CopyJob, task: SlotTask, sql: SqlAccess | None = None) -> SlotResult:
    """Copy a slot over the connections that the last slot of this worker had, if there was one."""
    return copy_slot(job, task, sql, pool=_POOL)


@dataclass(frozen=True)
class SlotWork(SameBuild):
    """What a Spark task does with its partition of the RDD; travels to workers by reference to this
    module."""

    refusing = as_value

    job: CopyJob
    copy: CopySlot

    def __call__(self, tasks: Iterable[SlotTask]) -> Iterator[SlotResult]:
        from pyspark import TaskContext

        context = TaskContext.get()
        again = context is not None and context.attemptNumber() > 0
        for task in tasks:
            yield not_copied(task) if again else copied(self.copy, self.job, task)


@dataclass(frozen=True)
class Relay(SameBuild):
    """What the first Python worker of a slot with statements does: it gives Spark the columns that the slot sends."""

    # The slot's worker, beside it, answers for both.
    refusing = as_nothing

    pipe: SqlPipe

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for _ in rows:
            pass
        if not context.attemptNumber():
            yield from relay(self.pipe, context.taskAttemptId())


@dataclass(frozen=True)
class SqlSlotWork(SameBuild):
    """What the second Python worker does: it copies the slot, whose number is the partition's; the result is one row of
    pickled bytes."""

    refusing = as_row

    job: CopyJob
    tasks: tuple[SlotTask, ...]
    copy: CopySlot
    pipe: SqlPipe

    def __call__(self, evaluated: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        task = self.tasks[context.partitionId()]
        if context.attemptNumber():
            note = f"slot {task.slot} lost its worker, or the one beside it through which its records go to Spark SQL"
            if what := waited_for(self.pipe, context.partitionId()):
                note += f", while that evaluated {what}"
            result = replace(not_copied(task), notes=(note,))
            for _ in evaluated:
                pass
        else:
            with SqlChannel(self.pipe, context.taskAttemptId(), context.partitionId(), evaluated) as channel:
                result = copied(partial(self.copy, sql=channel), self.job, task)
        yield pa.record_batch([pa.array([pickle.dumps(result)], pa.binary())], names=["result"])


def copied(copy: CopySlot, job: CopyJob, task: SlotTask) -> SlotResult:
    """Copy one slot. What it raises becomes the error of all its partitions, not a lost task, which Spark would start
    again. The trace of a fault that the engine did not foresee goes to the worker's standard error."""
    try:
        return copy(job, task)
    except SrmError as error:
        return not_copied(task, str(error), type(error).__name__)
    except Exception as error:
        traceback.print_exc()
        place = traceback.extract_tb(error.__traceback__)[-1]
        sentence = f"{type(error).__name__} at {os.path.basename(place.filename)}:{place.lineno}: {error}"
        return not_copied(task, sentence)


def not_copied(task: SlotTask, error: str | None = None, kind: str = SrmError.__name__) -> SlotResult:
    """The result of a task that copied nothing, or an unknown amount: its producer needs a new epoch.

    Args:
        error: why, one sentence.
        kind: of the error, a class of :mod:`srm_common.errors`.
    """
    return SlotResult(
        slot=task.slot,
        ranges=tuple(
            RangeResult(
                upstream_topic=copy_range.upstream_topic,
                downstream_topic=copy_range.downstream_topic,
                partition=copy_range.partition,
                start=copy_range.start,
                position=copy_range.start,
                end=copy_range.end,
                error=error,
                error_kind=None if error is None else kind,
            )
            for copy_range in task.ranges
        ),
        needs_new_epoch=True,
        notes=() if error is None else (error,),
    )
