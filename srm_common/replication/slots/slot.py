"""A slot: copies its ranges chunk by chunk until each is complete or has failed. Runs in a worker process, blocking.

Nothing here takes ownership: the slot uses the identity that the driver fenced for it. After an uncertain response
it bumps its own epoch, which the broker refuses when a newer owner exists, and restarts the chunk from the last
committed offsets.
"""

from __future__ import annotations

import gc
import logging
import random
import resource
import time
from collections.abc import Callable
from pathlib import Path

from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.errors import ClusterError, Fenced, LostProcess, SrmError
from srm_common.kafka.client.connections.signal import Signal
from srm_common.kafka.client.connections.threads import tell
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.transactions.producer import Producer, UncertainCommit
from srm_common.replication.slots.blocks import Block
from srm_common.replication.slots.chunk import Chunk
from srm_common.replication.slots.chunk_failed import ChunkFailed
from srm_common.replication.slots.fetching import ANSWER_SECONDS, Fetching
from srm_common.replication.slots.hanging_transactions import end_open_transactions
from srm_common.replication.slots.range_transforms import SqlAccess, range_transforms
from srm_common.replication.slots.ranges import RangeState
from srm_common.replication.slots.slot_links import SlotLinks
from srm_common.replication.slots.slot_registries import slot_registries
from srm_common.replication.slots.slot_watch import SlotWatch, Stuck
from srm_common.replication.slots.suspects import Suspects

_LOG = logging.getLogger(__name__)
#: The objects of a fetched block live until it is acknowledged and are no cycles: with Python's usual 700 the collector
#: goes through all of them several times.
_COLLECT_AFTER = 10_000
_MOST_NOTES = 20
#: How long a failed chunk's other answers are waited for; they are on their way, or their broker is gone.
_DRAIN_SECONDS = 2.0
#: How long a tailing slot continues with the others after a range was given up.
_STOP_SECONDS = 5.0
#: While some range is behind, a tailing slot commits after this many times the linger.
_BACKLOG_LINGERS = 5


def copy_slot(
    job: CopyJob,
    task: SlotTask,
    sql: SqlAccess | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
    pool: LinkPool | None = None,
) -> SlotResult:
    """Copy a slot's ranges.

    Args:
        sql: the way to Spark SQL, for a flow with statements that need it.
        clock: measures the time that the job gives the slot, in seconds.
        pool: where the process keeps connections for its next slot, in one loop.

    Faults of Kafka never raise: they come back in the result, per range. ``needs_new_epoch`` says that the outcome of
    a commit is unknown, ``fenced`` that a newer owner exists; in both cases the driver must read the committed
    offsets again.
    """
    started, usage = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    thresholds = gc.get_threshold()
    with SlotLinks(job, task, pool) as links:
        slot = _Slot(job, task, links, sql, clock)
        gc.set_threshold(max(_COLLECT_AFTER, thresholds[0]), *thresholds[1:])
        try:
            links.source.loop.run(slot.work)
        finally:
            gc.set_threshold(*thresholds)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return slot.result(
        wall_seconds=time.monotonic() - started,
        cpu_seconds=used.ru_utime + used.ru_stime - usage.ru_utime - usage.ru_stime,
        peak_rss_bytes=_peak_rss_bytes(),
    )


class _Slot:
    def __init__(
        self,
        job: CopyJob,
        task: SlotTask,
        links: SlotLinks,
        sql: SqlAccess | None,
        clock: Callable[[], float],
    ) -> None:
        self._job, self._task = job, task
        self._links = links
        self._source, self._target = links.source, links.target
        self._tails = job.tail_until > time.time()
        self._registries = slot_registries(job)
        transform_of = range_transforms(job, task.slot, sql, self._registries)
        self._states = [RangeState(spec, tailing=self._tails, transform=transform_of(spec)) for spec in task.ranges]
        self._suspects = Suspects(self._states)
        self._signal = Signal(links.source.loop)
        self._transactions = 0
        name = f"slot {task.slot} of {job.flow}"
        commits, arriving = (lambda: self._transactions), (lambda: self._fetching.heard_bytes if self._fetching else 0)
        self._watch = SlotWatch(name, job, self._signal, links.source.loop, commits, arriving, self._waits_for)
        self._fetching: Fetching | None = None
        self._chunk: Chunk | None = None
        self._producer: Producer | None = None
        #: The block whose rest did not go into the last chunk.
        self._rest: Block | None = None
        self._retries = 0
        self._needs_new_epoch = False
        self._fenced: str | None = None
        self._notes: list[str] = []
        self._clock = clock
        self._stop_at = clock() + job.pass_seconds if job.pass_seconds > 0 else float("inf")
        if self._tails:
            self._stop_at = min(self._stop_at, clock() + job.tail_until - time.time())

    async def work(self) -> None:
        """Everything, inside the event loop."""
        job = self._job
        self._watch.start()
        try:
            self._watch.doing = f"connections to {job.source.alias}"
            await self._links.open_source()
            self._watch.doing = f"connections to {job.target.alias}"
            await self._links.open_target()
            version = await self._target.finalized_feature("transaction.version", job.retry_timeout_seconds)
            producer = self._producer = Producer(
                self._target,
                self._task.identity if job.exactly_once else None,
                transactions_v2=version >= 2,
                transaction_timeout_ms=job.transaction_timeout_ms,
                retry_seconds=job.retry_timeout_seconds,
            )
            await producer.start()
            await self._end_open_transactions(producer)
            await self._copy(producer)
        except Fenced as error:
            self._fenced = str(error)
            self._note(self._fenced)
        except (Stuck, LostProcess) as error:
            self._needs_new_epoch = True
            self._note(str(error))
        except UncertainCommit as error:
            self._needs_new_epoch = True
            self._note(f"commit without a definite answer: {error}")
        except ClusterError as error:
            for state in self._unsettled():
                state.start_over(keep_acknowledged=False)
                state.give_up(error)
        finally:
            self._watch.end()
            if self._registries is not None:
                self._registries.close()

    def _note(self, note: str) -> None:
        """Into the log at once, and into the result."""
        _LOG.warning("slot %d of %s: %s", self._task.slot, self._job.flow, note)
        if len(self._notes) < _MOST_NOTES:
            self._notes.append(note)

    def _waits_for(self) -> str:
        """For the watch: failed ranges, requests in flight, and ranges that are behind."""
        failing = [state for state in self._states if state.failing]
        behind = sum(state.behind for state in self._states if not state.settled)
        if not (failing or behind or (self._chunk is not None and self._chunk.open)):
            return ""
        parts = [f"{behind} partitions that are behind"]
        for state in failing[:1]:
            more = f" and {len(failing) - 1} more partitions" if len(failing) > 1 else ""
            parts.append(f"{state.upstream[0]}-{state.upstream[1]}{more}: {state.waits_for or state.last_fault}")
        return ", ".join([*parts, *(text for text in (str(self._fetching or ""), str(self._chunk or "")) if text)])

    def _unsettled(self) -> list[RangeState]:
        return [state for state in self._states if not state.settled]

    async def _copy(self, producer: Producer) -> None:
        # Each pass begins with another range: where the target is so slow that a pass does not get through them all,
        # none is the last one each time.
        first = random.randrange(len(self._states)) if self._states else 0
        ranges = self._states[first:] + self._states[:first]
        fetching = Fetching(self._job, self._source, ranges, self._signal, self._note, self._seconds_left)
        chunk = Chunk(self._job, self._target, producer, self._signal)
        self._fetching, self._chunk = fetching, chunk
        if self._registries is not None:
            self._registries.on_answer = lambda: tell(self._source.loop, self._schemas_arrived)
        while True:
            try:
                if await self._step(fetching, chunk):
                    break
            except ChunkFailed as failure:
                await self._start_over(producer, fetching, chunk, failure)
            except Fenced:
                # The transaction may merely have timed out: only a newer owner makes the broker refuse the bump.
                await self._start_over(producer, fetching, chunk, ChunkFailed("the epoch was bumped"))
        if self._links.pooled and not self._retries and all(state.error is None for state in self._states):
            await fetching.finish()
            self._links.nothing_in_flight()

    def _schemas_arrived(self) -> None:
        for state in self._states:
            state.schemas_arrived()
        if self._fetching is not None:
            self._fetching.look_again()
        self._signal.set()

    async def _step(self, fetching: Fetching, chunk: Chunk) -> bool:
        """One turn; True when everything is settled."""
        self._watch.doing = ""
        if self._over:
            for state in self._states:
                state.stay()
        if chunk.open:
            chunk.check()
        else:
            await self._try_suspects(fetching)
        await fetching.start()
        block, self._rest = self._rest or fetching.next_block(), None
        if block is not None:
            if not await chunk.put(block):
                self._rest = block
            if not (chunk.full or self._suspects.on_trial):
                return False
        elif not chunk.full and self._more_to_come(fetching, chunk):
            await self._signal.wait(self._patience(fetching, chunk))
            return False
        if chunk.open:
            await self._commit(fetching, chunk)
            return self._over
        if self._suspects.on_trial:
            # The source has nothing for them now.
            self._suspects.acquit()
            fetching.look_again()
            return False
        if all(state.settled for state in self._states):
            return True
        await self._signal.wait(self._patience(fetching, chunk))
        return False

    async def _commit(self, fetching: Fetching, chunk: Chunk) -> None:
        self._watch.doing = "commit"
        repeated = await chunk.commit(self._states)
        self._transactions += 1
        if self._suspects.on_trial:
            self._suspects.acquit()
            fetching.look_again()
        if repeated and self._producer is not None:
            # Its broker may have been restarted, and its markers skipped.
            await self._end_open_transactions(self._producer)
            self._discard(fetching)
            for state in self._states:
                state.start_over(keep_acknowledged=False)
        if self._tails and any(state.error is not None for state in self._states):
            # The driver decides about lost data and the like, and the others continue in its next pass.
            self._stop_at = min(self._stop_at, self._clock() + _STOP_SECONDS)

    @property
    def _over(self) -> bool:
        """Whether the slot ends with its next commit. A partition that waits after a fault keeps its patience, or the
        fault would never be reported; meanwhile the others continue."""
        return self._clock() > self._stop_at and not any(state.failing for state in self._states)

    def _seconds_left(self) -> float:
        return self._stop_at - self._clock()

    def _behind(self) -> bool:
        return any(state.behind and not (state.held or state.paused) for state in self._states)

    def _more_to_come(self, fetching: Fetching, chunk: Chunk) -> bool:
        """Whether the chunk waits for another block. While tailing it is committed as soon as all that the source had
        is in it, and in a backlog after a second, so that ranges that are not behind wait no longer than that."""
        if not self._tails or self._suspects.on_trial:
            return fetching.busy and any(state.behind for state in self._states if not state.held)
        if not chunk.open:
            return fetching.busy and (not self._over or self._behind())
        if self._behind():
            return fetching.busy and chunk.age < _BACKLOG_LINGERS * self._job.linger_seconds
        return fetching.answer_is_near and chunk.age < self._job.linger_seconds / 4

    def _patience(self, fetching: Fetching, chunk: Chunk) -> float:
        now = time.monotonic()
        limits = [1.0, fetching.next_event - now]
        if (left := self._seconds_left()) > 0:
            limits.append(left)
        if chunk.open:
            limits.append(self._job.chunk_seconds - chunk.age)
            if self._tails:
                limits.append(ANSWER_SECONDS)
        return max(min(limits), 0.0)

    async def _try_suspects(self, fetching: Fetching) -> None:
        """Let suspects have the next chunk when nothing of the others waits for one."""
        due = self._suspects.due()
        if not due or self._rest is not None:
            return
        trial = []
        for state in due:
            if self._target.leader(*state.downstream) is None:
                # No chunk is needed to see that.
                self._fault(state, self._target.leaderless(*state.downstream))
                fetching.look_again()
                self._source.loop.call_soon(self._target.refresh)
            else:
                trial.append(state)
        if trial:
            self._discard(fetching)
            for state in self._states:
                state.start_over(keep_acknowledged=False)
            self._suspects.try_them(trial)
            fetching.look_again()
            if self._producer is not None:
                # Where there was no leader, what an earlier transaction left open could not be seen.
                await self._end_open_transactions(self._producer)

    def _fault(self, state: RangeState, error: SrmError) -> None:
        if state.fault(error, self._job.retry_timeout_seconds):
            # What was acknowledged without its offset record is copied again by the next run.
            state.start_over(keep_acknowledged=False)
            state.stop_at(state.committed, error)

    async def _start_over(self, producer: Producer, fetching: Fetching, chunk: Chunk, failure: ChunkFailed) -> None:
        self._retries += 1
        self._note(f"chunk started over: {failure}")
        self._watch.doing = "a new epoch after a failed chunk"
        self._discard(fetching)
        answered = producer.aborts_by_request and await chunk.drain(_DRAIN_SECONDS)
        chunk.abandon()
        keep = not producer.transactional
        for state in self._states:
            state.start_over(keep_acknowledged=keep)
        # A commit ends a fault, and a partition without new records may never have one.
        for state in failure.states or [state for state in self._unsettled() if state.committed < state.end]:
            self._fault(state, failure.error)
        if any(state.acknowledged_only for state in self._states):
            # All may have been fetched already: then nothing but the offset record is left to write.
            chunk.begin()
        if not failure.states:
            # No range's fault in particular: the pause is for all of them, and they continue together.
            await self._source.loop.sleep(0.02)
        await self._target.refresh()
        await producer.renew(answered=answered)
        await self._end_open_transactions(producer)
        if self._suspects.on_trial:
            self._suspects.convict()
        self._suspects.accuse(failure.states)
        fetching.look_again()

    def _discard(self, fetching: Fetching) -> None:
        """Discard what was fetched and is in no chunk."""
        if self._rest is not None:
            self._rest.finish_taking()
            self._rest = None
        fetching.discard()

    async def _end_open_transactions(self, producer: Producer) -> None:
        """End what the coordinator forgot to end, and leave out partitions where that fails: the next commit would
        make aborted records visible there."""
        if not producer.transactional:
            return
        self._watch.doing = "hanging transactions on the target"
        unsettled = self._unsettled()
        errors = await end_open_transactions(self._job, self._target, producer, unsettled)
        for state in unsettled:
            error = errors.get(state.downstream)
            if error is not None:
                state.start_over(keep_acknowledged=False)
                state.give_up(error)

    def result(self, *, wall_seconds: float, cpu_seconds: float, peak_rss_bytes: int) -> SlotResult:
        """What the slot did."""
        return SlotResult(
            slot=self._task.slot,
            ranges=tuple(state.result() for state in self._states),
            transactions=self._transactions,
            retries=self._retries,
            needs_new_epoch=self._needs_new_epoch,
            fenced=self._fenced,
            wall_seconds=wall_seconds,
            cpu_seconds=cpu_seconds,
            peak_rss_bytes=peak_rss_bytes,
            notes=tuple(self._notes),
            identity=None if self._producer is None else self._producer.identity,
        )


def _peak_rss_bytes() -> int:
    """The largest resident set of this process so far.

    Linux's ``ru_maxrss`` survives ``exec`` and so may be the parent's; ``VmHWM`` is this program's own.
    """
    status = Path("/proc/self/status")
    if status.exists():
        _, _, rest = status.read_bytes().partition(b"VmHWM:")
        if rest:
            return int(rest.split(maxsplit=1)[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
