"""A slot: copies its ranges chunk by chunk until each is done or given up. Runs in a worker process, blocking.

Nothing here takes ownership: the slot spends the identity that the driver fenced for it. After an uncertain answer
it bumps its own epoch, which the broker refuses when a newer owner exists, and starts the chunk over from the last
committed offsets.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable

from kafka.net.selector import NetworkSelector

from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.errors import ClusterError, Fenced
from srm_common.kafka.link import ClusterLink
from srm_common.kafka.producer import Producer, UncertainCommit
from srm_common.kafka.signal import Signal
from srm_common.replication.chunk import Chunk, ChunkFailed
from srm_common.replication.fetching import Block, Fetching
from srm_common.replication.leftovers import end_leftovers
from srm_common.replication.memory import peak_rss_bytes
from srm_common.replication.ranges import RangeState

_MOST_NOTES = 20
#: How long a failed chunk's other answers are waited for; they are on their way, or their broker is gone.
_DRAIN_SECONDS = 2.0


def copy_slot(job: CopyJob, task: SlotTask) -> SlotResult:
    """Copy a slot's ranges.

    Faults of Kafka never raise: they come back in the result, per range. ``needs_new_epoch`` says that the outcome of
    a commit is unknown, ``fenced`` that a newer owner exists; in both cases the driver must read the committed
    offsets again.
    """
    started, usage = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    loop = NetworkSelector(slow_task_threshold_secs=0)
    source = ClusterLink(job.source, loop=loop, client_id=job.client_id, request_timeout_ms=job.request_timeout_ms)
    target = ClusterLink(job.target, loop=loop, client_id=job.client_id, request_timeout_ms=job.request_timeout_ms)
    slot = _Slot(job, task, source, target)
    try:
        loop.run(slot.work)
    finally:
        source.close()
        target.close()
        loop.close()
    used = resource.getrusage(resource.RUSAGE_SELF)
    return slot.result(
        wall_seconds=time.monotonic() - started,
        cpu_seconds=used.ru_utime + used.ru_stime - usage.ru_utime - usage.ru_stime,
        peak_rss_bytes=peak_rss_bytes(),
    )


class _Slot:
    def __init__(self, job: CopyJob, task: SlotTask, source: ClusterLink, target: ClusterLink) -> None:
        self._job = job
        self._task = task
        self._source = source
        self._target = target
        self._states = [RangeState(spec) for spec in task.ranges]
        self._signal = Signal(source.loop)
        self._producer: Producer | None = None
        #: What did not go into the last chunk any more.
        self._rest: Block | None = None
        self._transactions = 0
        self._retries = 0
        self._needs_new_epoch = False
        self._fenced: str | None = None
        self._notes: list[str] = []
        self._stop_at = time.monotonic() + job.pass_seconds if job.pass_seconds > 0 else float("inf")

    async def work(self) -> None:
        """Everything, inside the event loop."""
        job = self._job
        try:
            patience = job.retry_timeout_seconds
            await self._source.open({spec.upstream_topic for spec in self._task.ranges}, patience)
            await self._target.open(
                {spec.downstream_topic for spec in self._task.ranges} | {job.offsets_topic, job.segments_topic},
                patience,
            )
            producer = Producer(
                self._target,
                self._task.identity if job.exactly_once else None,
                transactions_v2=await self._target.finalized_feature("transaction.version", patience) >= 2,
                transaction_timeout_ms=job.transaction_timeout_ms,
                retry_seconds=job.retry_timeout_seconds,
            )
            self._producer = producer
            await producer.start()
            await self._end_leftovers(producer)
            await self._copy(producer)
        except Fenced as error:
            self._fenced = str(error)
        except UncertainCommit as error:
            self._needs_new_epoch = True
            self._notes.append(f"commit without a definite answer: {error}")
        except ClusterError as error:
            for state in self._unsettled():
                state.start_over(keep_acknowledged=False)
                state.give_up(error)

    def _unsettled(self) -> Iterable[RangeState]:
        return [state for state in self._states if not state.settled]

    async def _copy(self, producer: Producer) -> None:
        fetching = Fetching(self._job, self._source, self._states, self._signal)
        chunk = Chunk(self._job, self._target, producer, self._signal)
        while True:
            try:
                if await self._step(fetching, chunk):
                    return
            except ChunkFailed as failure:
                await self._start_over(producer, fetching, chunk, failure)
            except Fenced:
                # The transaction may merely have timed out: only a newer owner makes the broker refuse the bump.
                await self._start_over(producer, fetching, chunk, ChunkFailed("the epoch was bumped"))

    async def _step(self, fetching: Fetching, chunk: Chunk) -> bool:
        """One turn; True when everything is settled."""
        await fetching.start()
        block, self._rest = self._rest or fetching.next_block(), None
        if block is not None:
            if not await chunk.put(block):
                self._rest = block
            if not chunk.full:
                return False
        elif not chunk.full and (fetching.busy or self._paused()) and not self._all_fetched():
            await self._signal.wait(self._patience(fetching, chunk))
            return False
        if chunk.open:
            repeated = await chunk.commit(self._states)
            self._transactions += 1
            if repeated and self._producer is not None:
                # Its broker may have been started anew, and its markers skipped.
                await self._end_leftovers(self._producer)
                self._discard(fetching)
                for state in self._states:
                    state.start_over(keep_acknowledged=False)
            # A partition that waits after a fault is given its patience, or it would never be told of.
            return time.monotonic() > self._stop_at and not self._paused()
        if all(state.settled for state in self._states):
            return True
        await self._signal.wait(self._patience(fetching, chunk))
        return False

    def _paused(self) -> bool:
        return any(state.paused and not state.settled for state in self._states)

    def _all_fetched(self) -> bool:
        return all(state.fetched >= state.end for state in self._states)

    def _patience(self, fetching: Fetching, chunk: Chunk) -> float:
        now = time.monotonic()
        limits = [1.0]
        event = fetching.next_event()
        if event is not None:
            limits.append(event - now)
        if chunk.open:
            limits.append(chunk.opened_at + self._job.chunk_seconds - now)
        return max(min(limits), 0.0)

    async def _start_over(self, producer: Producer, fetching: Fetching, chunk: Chunk, failure: ChunkFailed) -> None:
        self._retries += 1
        if len(self._notes) < _MOST_NOTES:
            self._notes.append(f"chunk started over: {failure}")
        self._discard(fetching)
        answered = producer.aborts_by_request and await chunk.drain(_DRAIN_SECONDS)
        chunk.abandon()
        keep = not producer.transactional
        for state in self._states:
            state.start_over(keep_acknowledged=keep)
        for state in failure.states or self._unsettled():
            if state.fault(failure.error, self._job.retry_timeout_seconds):
                # What was acknowledged without its offset record is copied again by the next run.
                state.start_over(keep_acknowledged=False)
                state.stop_at(state.committed, failure.error)
        if any(state.acknowledged_only for state in self._states):
            # All may have been fetched already: then nothing but the offset record is left to write.
            chunk.begin()
        if not failure.states:
            # Nobody's fault in particular: the pause is for all of them, and they go on together.
            await self._source.loop.sleep(0.02)
        await self._target.refresh()
        await producer.renew(answered=answered)
        await self._end_leftovers(producer)

    def _discard(self, fetching: Fetching) -> None:
        """Forget what was fetched and is in no chunk."""
        if self._rest is not None:
            self._rest.finish_taking()
            self._rest = None
        fetching.discard()

    async def _end_leftovers(self, producer: Producer) -> None:
        """End what the coordinator forgot to end, and leave out partitions where that fails: the next commit would
        make aborted records visible there."""
        if not producer.transactional:
            return
        unsettled = list(self._unsettled())
        errors = await end_leftovers(self._job, self._target, producer, unsettled)
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
