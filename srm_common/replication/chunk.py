"""One chunk: record batches of many ranges, then their source offsets and offset map, all in one transaction.

Order inside a transaction: data; all acknowledgements; offset and segment records; their acknowledgements; the
commit. The offset record comes last because readers that are not read_committed (MirrorMaker 2 without exactly-once)
see aborted records too.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from srm_common.domain.offsets.segments import build_segment
from srm_common.domain.runs.copying import CopyJob
from srm_common.errors import (
    AccessDenied,
    CorruptBatch,
    Fenced,
    NoSuchPartition,
    PartitionError,
    RecordTooLarge,
    SrmError,
)
from srm_common.kafka import codes
from srm_common.kafka.frames import RawProduce
from srm_common.kafka.link import ClusterLink, Partition, RetriableFault
from srm_common.kafka.producer import Producer
from srm_common.kafka.signal import Signal
from srm_common.replication.fetching import Block, Portion
from srm_common.replication.ranges import RangeState, Share
from srm_common.wire.batch import TRANSACTIONAL, Buffer, stamp
from srm_common.wire.mm2 import source_offset_key, source_offset_value
from srm_common.wire.murmur2 import partition_for
from srm_common.wire.packed import Packed
from srm_common.wire.plain_records import plain_records
from srm_common.wire.produce import ProduceAnswer
from srm_common.wire.reencode import MAP_LEAST_BYTES, MAP_SHARE
from srm_common.wire.repack import repack
from srm_common.wire.segments import encode_segment, segment_partition

#: The broker remembers five batches of a producer and partition (KIP-98), and the library refuses a sixth request.
_IN_FLIGHT = 5


class ChunkFailed(Exception):
    """The chunk must be started over. ``states``: the ranges it is due to; empty when it is nobody's in particular.
    ``error``: what to report when it is given up."""

    def __init__(self, reason: str | SrmError, states: Sequence[RangeState] = ()) -> None:
        super().__init__(str(reason))
        self.states = tuple(states)
        self.error = PartitionError(reason) if isinstance(reason, str) else reason


class Chunk:
    """The chunk in work of a slot."""

    def __init__(self, job: CopyJob, target: ClusterLink, producer: Producer, signal: Signal) -> None:
        self._job = job
        self._target = target
        self._producer = producer
        self._signal = signal
        self._in_flight: dict[int, int] = defaultdict(int)
        self._epoch = 0
        self._failure: Exception | None = None
        self._lost = False
        self._keys: dict[Partition, bytes] = {}
        self.bytes = 0
        self.opened_at = 0.0

    @property
    def open(self) -> bool:
        """Whether something was put into it."""
        return self.opened_at > 0

    @property
    def full(self) -> bool:
        """Whether it should be committed now."""
        return self.open and (self.bytes >= self._job.chunk_bytes or self._overdue)

    @property
    def _overdue(self) -> bool:
        return time.monotonic() - self.opened_at >= self._job.chunk_seconds

    @property
    def acknowledged(self) -> bool:
        """Whether nothing is in flight."""
        return not any(self._in_flight.values())

    async def put(self, block: Block) -> bool:
        """Produce what a block brought. False: the chunk's time is over before the block is; the rest of it goes
        into the next chunk. On a slow way to the target one block may outlast a transaction.

        Raises:
            ChunkFailed: the chunk must be started over.
            Fenced: a newer owner exists.
        """
        self.begin()
        taken = True
        try:
            if block.turns is None:
                block.turns = [(portion, self._packed(portion)) for portion in block.portions]
            portions = [portion for portion, _ in block.turns]
            await self._add([p.state.downstream for p in portions if p.batches], portions)
            while block.turns:
                left: list[tuple[Portion, Iterator[Packed]]] = []
                round_: list[tuple[RangeState, Packed]] = []
                for portion, source in block.turns:
                    packed = self._next(portion, source)
                    if packed is not None:
                        round_.append((portion.state, packed))
                        left.append((portion, source))
                if round_:
                    await self._produce(round_, block)
                block.turns = left
                if left and self._overdue:
                    taken = False
                    break
        finally:
            if taken:
                block.finish_taking()
        return taken

    def begin(self) -> None:
        """Open it, if it is not."""
        if not self.open:
            self.opened_at = time.monotonic()

    def _packed(self, portion: Portion) -> Iterator[Packed]:
        state = portion.state
        return repack(portion.batches, portion.first_offset, state.end, state.spec.max_message_bytes)

    def _next(self, portion: Portion, source: Iterator[Packed]) -> Packed | None:
        """The portion's next batch. At its end, or at a batch that cannot be copied, the range's share moves up."""
        state = portion.state
        share = state.open_share()
        try:
            packed = next(source, None)
        except (CorruptBatch, RecordTooLarge) as error:
            name = f"{state.upstream[0]}-{state.upstream[1]}"
            state.stop_at(share.upstream_end, type(error)(f"partition {name}: {error}"))
            return None
        if packed is None:
            if state.error is None or portion.next_offset <= state.end:
                share.upstream_end = max(share.upstream_end, min(portion.next_offset, state.end))
            return None
        share.upstream_end = packed.upstream_end
        return packed

    async def _add(
        self,
        partitions: Sequence[Partition],
        portions: Sequence[Portion] = (),
        owners: Mapping[Partition, Sequence[RangeState]] | None = None,
    ) -> None:
        try:
            refused = await self._producer.add(partitions)
        except RetriableFault as error:
            raise ChunkFailed(str(error)) from error
        if not refused:
            return
        for one, code in refused.items():
            mine = [portion.state for portion in portions if portion.state.downstream == one]
            self._refused(code, None, one, owners[one] if owners else mine, 0)
        self._check()

    async def _produce(self, items: Sequence[tuple[RangeState, Packed]], block: Block) -> None:
        by_leader: dict[int, list[tuple[RangeState, Packed]]] = defaultdict(list)
        for state, packed in items:
            leader = self._target.leader(*state.downstream)
            if leader is None:
                raise ChunkFailed(self._target.leaderless(*state.downstream), [state])
            by_leader[leader].append((state, packed))
        producer = self._producer
        bit = TRANSACTIONAL if producer.transactional else 0
        for leader, ones in by_leader.items():
            while self._in_flight[leader] >= _IN_FLIGHT:
                await self._signal.wait()
            self._check()
            topics: dict[str, list[tuple[int, Sequence[Buffer]]]] = {}
            for state, packed in ones:
                header = stamp(
                    attributes=packed.attributes | bit,
                    last_offset_delta=packed.record_count - 1,
                    base_timestamp=packed.base_timestamp,
                    max_timestamp=packed.max_timestamp,
                    record_count=packed.record_count,
                    body=packed.body,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    base_sequence=producer.take(state.downstream, packed.record_count),
                )
                topics.setdefault(state.downstream[0], []).append((state.downstream[1], (header, packed.body)))
                self.bytes += packed.size
            block.pending += 1
            await self._post(leader, topics, dict(_by_partition(ones)), block)

    async def _post(
        self,
        leader: int,
        topics: dict[str, list[tuple[int, Sequence[Buffer]]]],
        owners: dict[Partition, tuple[Sequence[RangeState], Packed | None]],
        block: Block | None,
    ) -> None:
        request = RawProduce(
            self._producer.produce_version,
            self._producer.transactional_id,
            self._job.request_timeout_ms,
            topics,
        )
        states = [state for found, _ in owners.values() for state in found]
        epoch = self._epoch
        self._in_flight[leader] += 1

        def settled() -> bool:
            if block is not None:
                block.settle()
            if epoch != self._epoch:
                return False
            self._in_flight[leader] -= 1
            self._signal.set()
            return True

        def answered(answer: ProduceAnswer) -> None:
            try:
                read(answer)
            except Exception as error:  # the library would only log it, and the chunk would be committed
                self._failure = error

        def read(answer: ProduceAnswer) -> None:
            if settled():
                for part in answer.partitions:
                    place = (part.topic, part.partition)
                    found, packed = owners[place]
                    if part.error_code:
                        offset = packed.runs[0][0] if packed is not None else None
                        self._refused(part.error_code, part.error_message, place, found, offset)
                    elif packed is not None and self._failure is None:
                        # After a failure a later batch may be stored without the one before it.
                        _share(found[0]).acknowledge(packed, part.base_offset)

        def lost(error: BaseException) -> None:
            if settled():
                self._lost = True
                self._fail(ChunkFailed(f"a leader at {self._target.alias} did not answer: {error}", states))

        try:
            future = await self._target.post(leader, request)
        except RetriableFault as error:
            settled()
            raise ChunkFailed(str(error), states) from error
        future.add_callback(answered)
        future.add_errback(lost)

    def _refused(
        self,
        code: int,
        message: str | None,
        partition: Partition,
        states: Sequence[RangeState],
        offset: int | None,
    ) -> None:
        """The target refused a batch. Its later batches may have been stored, so the chunk is always started over."""
        place = f"partition {partition[0]}-{partition[1]} at {self._target.alias}"
        text = f"{place}: {codes.name(code)}" + (f", {message}" if message else "")
        if code in codes.FENCED:
            self._fail(Fenced(f"the producer {self._producer.transactional_id} was fenced: {text}"))
            return
        if code in codes.REDO_CHUNK:
            self._fail(ChunkFailed(text))
            return
        if not codes.retriable(code):
            error: SrmError
            if code in codes.DENIED:
                error = AccessDenied(f"{place}: writing is not allowed; grant WRITE on topic {partition[0]}")
            elif code == codes.MESSAGE_TOO_LARGE:
                error = RecordTooLarge(f"{text}; the topic's max.message.bytes was lowered during the run")
            else:
                error = PartitionError(text)
            for state in states:
                share = state.share
                state.stop_at(
                    share.upstream_start if offset is None and share is not None else offset or state.committed,
                    error,
                )
        gone = code == codes.UNKNOWN_TOPIC_OR_PARTITION
        reason = NoSuchPartition(f"{place} does not exist, or was deleted") if gone else text
        self._fail(ChunkFailed(reason, states if codes.retriable(code) else ()))

    def _fail(self, failure: ChunkFailed | SrmError) -> None:
        if self._failure is None or isinstance(failure, Fenced):
            self._failure = failure

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def commit(self, states: Sequence[RangeState]) -> bool:
        """Write offsets and map, and commit. True when the coordinator had to be asked again.

        Raises:
            ChunkFailed, Fenced: as in :meth:`put`.
            UncertainCommit: nobody knows; the slot must stop.
        """
        while not self.acknowledged:
            self._check()
            await self._signal.wait()
        self._check()
        moved = [s for s in states if s.share is not None and s.share.upstream_end > s.share.upstream_start]
        repeated = False
        if moved:
            await self._write_state(moved)
            repeated = await self._producer.commit()
        now_ms = time.time() * 1000
        for state in states:
            state.commit(now_ms)
        self.reset()
        return repeated

    async def _write_state(self, states: Sequence[RangeState]) -> None:
        job, producer = self._job, self._producer
        records: dict[Partition, list[tuple[bytes, bytes]]] = defaultdict(list)
        owners: dict[Partition, list[RangeState]] = defaultdict(list)
        for state in states:
            share = _share(state)
            topic, partition = state.upstream
            key = self._keys.get(state.upstream)
            if key is None:
                key = self._keys[state.upstream] = source_offset_key(job.source_alias, topic, partition)
            place = (job.offsets_topic, partition_for(key, job.offsets_partitions))
            records[place].append((key, source_offset_value(share.upstream_end - 1)))
            owners[place].append(state)
            if share.runs:
                segment = build_segment(
                    topic,
                    partition,
                    share.upstream_start,
                    share.upstream_end,
                    share.runs,
                    max(int(share.bytes * MAP_SHARE), MAP_LEAST_BYTES),
                    state.spec.generation,
                )
                place = (job.segments_topic, segment_partition(topic, partition, job.segments_partitions))
                records[place].append(encode_segment(segment))
                owners[place].append(state)
        await self._add(list(records), owners=owners)
        by_leader: dict[int, list[Partition]] = defaultdict(list)
        for place in records:
            leader = self._target.leader(*place)
            if leader is None:
                raise ChunkFailed(self._target.leaderless(*place), owners[place])
            by_leader[leader].append(place)
        now_ms = int(time.time() * 1000)
        for leader, places in by_leader.items():
            topics: dict[str, list[tuple[int, Sequence[Buffer]]]] = {}
            for place in places:
                pairs = records[place]
                body = plain_records(pairs)
                header = stamp(
                    attributes=TRANSACTIONAL if producer.transactional else 0,
                    last_offset_delta=len(pairs) - 1,
                    base_timestamp=now_ms,
                    max_timestamp=now_ms,
                    record_count=len(pairs),
                    body=body,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    base_sequence=producer.take(place, len(pairs)),
                )
                topics.setdefault(place[0], []).append((place[1], (header, body)))
            await self._post(leader, topics, {place: (owners[place], None) for place in places}, None)
        while not self.acknowledged:
            self._check()
            await self._signal.wait()
        self._check()

    async def drain(self, seconds: float) -> bool:
        """Wait for the answers of a failed chunk; True when each request of it was answered: none can still arrive
        at the broker."""
        deadline = time.monotonic() + seconds
        while not self.acknowledged and not self._lost and time.monotonic() < deadline:
            await self._signal.wait(deadline - time.monotonic())
        return self.acknowledged and not self._lost

    def abandon(self) -> None:
        """Forget the chunk; connections with unanswered requests are closed, so that no late bytes follow."""
        for leader, waiting in self._in_flight.items():
            if waiting:
                self._target.disconnect(leader)
        self._epoch += 1
        self.reset()

    def reset(self) -> None:
        """An empty chunk."""
        self._in_flight.clear()
        self._failure = None
        self._lost = False
        self.bytes = 0
        self.opened_at = 0.0


def _by_partition(
    items: Sequence[tuple[RangeState, Packed]],
) -> Iterator[tuple[Partition, tuple[Sequence[RangeState], Packed | None]]]:
    for state, packed in items:
        yield state.downstream, ((state,), packed)


def _share(state: RangeState) -> Share:
    if state.share is None:
        raise AssertionError(f"range {state.upstream} has no share of the chunk")
    return state.share


__all__ = ["Chunk", "ChunkFailed"]
