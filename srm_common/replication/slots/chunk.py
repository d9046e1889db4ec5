"""One chunk: record batches of many ranges, their source offsets and their offset map, in one transaction.

Order inside a transaction: data; all acknowledgements; offset and segment records; their acknowledgements; the
commit. The offset record comes last because readers that are not read_committed (MirrorMaker 2 without exactly-once)
see aborted records too.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

from srm_common.domain.runs.copying import CopyJob
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import NoSuchPartition
from srm_common.kafka.client.connections.signal import Signal
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.log.topic_ids import UsedTopics
from srm_common.kafka.transactions.producer import Producer
from srm_common.replication.slots.blocks import Block, Portion, Turn
from srm_common.replication.slots.chunk_failed import ChunkFailed
from srm_common.replication.slots.map_records import map_records
from srm_common.replication.slots.ranges import RangeState
from srm_common.replication.slots.sending import Outgoing, Sending
from srm_common.replication.slots.state_batches import STATE_BATCH_BYTES
from srm_common.wire.batches.batch import HEADER_SIZE, TRANSACTIONAL, stamp
from srm_common.wire.state.mm2 import (
    copied_to_headers,
    epoch_headers,
    partition_for,
    source_offset_key,
    source_offset_value,
)
from srm_common.wire.state.plain_records import Entry, in_batches, plain_records
from srm_common.wire.state.segments import (
    segment_partition,
)

#: A chunk with this many runs is committed. Only transforms make so many, because their runs are not merged.
_MOST_RUNS = 100_000

_tuple = tuple.__new__  # as in srm_common/wire/batches/batch.py


class Chunk:
    """A slot's current chunk."""

    def __init__(self, job: CopyJob, target: ClusterLink, producer: Producer, signal: Signal) -> None:
        self._job = job
        self._target = target
        self._producer = producer
        self._sending = Sending(job, target, producer, signal)
        self._copies = UsedTopics(target)
        self._keys: dict[TopicPartition, bytes] = {}
        self.bytes = 0
        self._runs = 0
        #: Bytes that wait for the dead letter topic, by range; they are sent before the commit.
        self._dead_letters: dict[TopicPartition, int] = {}
        self.opened_at = 0.0

    @property
    def open(self) -> bool:
        """Whether something was put into it."""
        return self.opened_at > 0

    @property
    def full(self) -> bool:
        """Whether it should be committed now."""
        return self.open and (
            self.bytes >= self._job.chunk_bytes
            or self._runs >= _MOST_RUNS
            or sum(self._dead_letters.values()) >= self._job.fetch_bytes
            or self._overdue
        )

    @property
    def _overdue(self) -> bool:
        return self.opened_at > 0 and time.monotonic() - self.opened_at >= self._job.chunk_seconds

    @property
    def age(self) -> float:
        """Seconds since it was opened; 0 while it is not."""
        return time.monotonic() - self.opened_at if self.open else 0.0

    def check(self) -> None:
        """Raises ChunkFailed or Fenced when a request has failed: nothing more needs to go into it."""
        self._sending.check()

    def __str__(self) -> str:
        return str(self._sending)

    async def put(self, block: Block) -> bool:
        """Produce the batches of a block. False: the chunk's time was up first, and the rest of the block goes into the
        next chunk. On a slow link to the target one block may take longer than a transaction may last.

        Raises:
            ChunkFailed: the chunk must be started over.
            Fenced: a newer owner exists.
        """
        self.begin()
        taken = True
        try:
            if block.turns is None:
                block.turns = [Turn(portion, self._job.compression) for portion in block.portions]
            turns: list[Turn] = block.turns
            # Before partitions join the transaction: those without batches must not.
            ready = [turn for turn in turns if turn.look()]
            await self._add([turn.state.downstream for turn in ready], [turn.portion for turn in ready])
            waiting = self._by_leader(ready)
            while waiting:
                unfinished = await self._round(waiting, block)
                if unfinished is not None:
                    block.turns = unfinished
                    taken = False
                    break
                waiting = _with_more(waiting)
            for turn in turns:
                share = turn.state.share
                if share is not None and share.dead_letters:
                    self._dead_letters[turn.state.upstream] = sum(letter.size for letter in share.dead_letters)
        finally:
            if taken:
                block.finish_taking()
        return taken

    def begin(self) -> None:
        """Open it, unless it is open."""
        if not self.open:
            self.opened_at = time.monotonic()

    def _by_leader(self, turns: Sequence[Turn]) -> dict[int, list[Turn]]:
        """Turns by the leader of their partitions. The leader is looked up once per block: if it moves in the meantime,
        the former one refuses, and the chunk restarts."""
        by_leader: dict[int, list[Turn]] = {}
        leaderless = []
        self._refuse_replaced([turn.state for turn in turns])
        for turn in turns:
            leader = self._target.leader(*turn.state.downstream)
            if leader is None:
                leaderless.append(turn.state)
            else:
                by_leader.setdefault(leader, []).append(turn)
        if leaderless:
            raise ChunkFailed(self._target.leaderless(*leaderless[0].downstream), leaderless)
        return by_leader

    def _refuse_replaced(self, states: Sequence[RangeState]) -> None:
        """What goes into a copy that was created since does not follow what was committed to the former one. Brokers
        may also know less than the driver, so it is looked at again for a while."""
        replaced = [s for s in states if self._copies.replaced(s.downstream.topic, s.spec.copy_generation)]
        if replaced:
            topic = replaced[0].downstream.topic
            raise ChunkFailed(
                NoSuchPartition(
                    f"topic {topic} at {self._target.alias} was deleted and created again while it was written to; "
                    f"on.target.loss says what follows"
                ),
                replaced,
            )

    async def _look_for_replaced(self, moved: Sequence[RangeState]) -> None:
        """Before the commit. That a copy ends earlier than what earlier runs have committed to it may be decided
        already (``on.target.loss``), or it was created again a moment ago."""
        shorter = [
            state
            for state in moved
            if state.copied_to is not None and 0 <= state.chunk_share.downstream_start < state.copied_to.downstream_end
        ]
        if shorter and not await self._target.refresh():
            raise ChunkFailed(f"cluster {self._target.alias} does not list its topics", shorter)
        self._refuse_replaced(moved)

    async def _round(self, waiting: Mapping[int, Sequence[Turn]], block: Block) -> list[Turn] | None:
        """Send the next batch of every turn. If the chunk's time is up by then, return the turns of the next chunk:
        first those that were not served, which might otherwise wait for as long as the others have batches."""
        served: list[Turn] = []
        for leader, turns in waiting.items():
            at = 0
            while at < len(turns):
                before, at = at, await self._send(leader, turns, at, block)
                served += turns[before:at]
                if self._overdue:
                    left = [turn for others in waiting.values() for turn in others]
                    return left[len(served) :] + served
        return None

    async def _send(self, leader: int, turns: Sequence[Turn], start: int, block: Block) -> int:
        """One request with batches of ``turns`` from ``start`` on, as many as the leader's link takes at a time;
        returns where the next one begins."""
        sending = self._sending
        window = sending.window(leader)
        end, size = start, 0
        while end < len(turns):
            packed = turns[end].packed
            more = 0 if packed is None else HEADER_SIZE + len(packed.body)
            if end > start and size + more > window:
                break
            size += more
            end += 1
        chosen = turns[start:end]
        if not sending.has_room(leader, size):
            await sending.room(leader, [turn.state.downstream for turn in chosen], size)
        producer = self._producer
        bit = TRANSACTIONAL if producer.transactional else 0
        producer_id, epoch, take = producer.producer_id, producer.epoch, producer.take
        batches = []
        for turn in chosen:
            state, packed = turn.state, turn.take()
            (attributes, base_timestamp, max_timestamp, count, body, runs, _, _, checked) = packed
            self._runs += len(runs)
            downstream = state.downstream
            header = stamp(
                attributes | bit,
                count - 1,
                base_timestamp,
                max_timestamp,
                count,
                body,
                producer_id,
                epoch,
                take(downstream, count),
                checked,
            )
            batches.append(_tuple(Outgoing, (downstream, (state,), packed, header, body)))
        self.bytes += size
        await sending.post(leader, batches, size, block)
        return end

    async def _add(
        self,
        partitions: Sequence[TopicPartition],
        portions: Sequence[Portion] = (),
        owners: Mapping[TopicPartition, Sequence[RangeState]] | None = None,
    ) -> None:
        try:
            refused = await self._producer.add(partitions)
        except RetriableFault as error:
            raise ChunkFailed(str(error)) from error
        if not refused:
            return
        for one, code in refused.items():
            mine = [portion.state for portion in portions if portion.state.downstream == one]
            self._sending.refuse(code, None, one, owners[one] if owners else mine)
        self._sending.check()

    async def commit(self, states: Sequence[RangeState]) -> bool:
        """Write offsets and map, and commit. True when the coordinator had to be asked again.

        Raises:
            ChunkFailed, Fenced: as in :meth:`put`.
            UncertainCommit: the outcome is unknown; the slot must stop.
        """
        await self._sending.finish()
        moved = [s for s in states if s.share is not None and s.share.upstream_end > s.share.upstream_start]
        repeated = False
        if moved:
            await self._look_for_replaced(moved)
            # Without transactions a share may be left from a chunk that was started over.
            with_letters = [state for state in moved if state.chunk_share.dead_letters]
            if with_letters:
                await self._write_dead_letters(with_letters)
            await self._write_state(moved)
            repeated = await self._producer.commit()
        now_ms = time.time() * 1000
        for state in states:
            state.commit(now_ms)
        self._reset()
        return repeated

    async def _write_dead_letters(self, states: Sequence[RangeState]) -> None:
        """The failed records of a partition go to one partition of the dead letter topic, in their order."""
        topic = self._job.error_handling.dead_letters
        if topic is None:
            raise AssertionError("there are dead letters, and no topic for them")
        letters = [
            (TopicPartition(topic.name, state.spec.partition % topic.partitions), state, packed)
            for state in states
            for packed in state.chunk_share.dead_letters
        ]
        owners: dict[TopicPartition, list[RangeState]] = defaultdict(list)
        for place, state, _ in letters:
            owners[place].append(state)
        await self._add(list(owners), owners=owners)
        producer = self._producer
        bit = TRANSACTIONAL if producer.transactional else 0
        for place, state, packed in letters:
            leader = self._target.leader(*place)
            if leader is None:
                raise ChunkFailed(self._target.leaderless(*place), tuple(dict.fromkeys(owners[place])))
            await self._sending.room(leader, [place], packed.size)
            header = stamp(
                packed.attributes | bit,
                packed.record_count - 1,
                packed.base_timestamp,
                packed.max_timestamp,
                packed.record_count,
                packed.body,
                producer.producer_id,
                producer.epoch,
                producer.take(place, packed.record_count),
            )
            batch = Outgoing(place, (state,), None, header, packed.body)
            await self._sending.post(leader, [batch], packed.size, None)
        await self._sending.finish()

    async def _write_state(self, states: Sequence[RangeState]) -> None:
        job = self._job
        records: dict[TopicPartition, list[Entry]] = defaultdict(list)
        owners: dict[TopicPartition, list[RangeState]] = defaultdict(list)
        for state in states:
            share = state.chunk_share
            topic, partition = state.upstream
            key = self._keys.get(state.upstream)
            if key is None:
                key = self._keys[state.upstream] = source_offset_key(job.source_alias, topic, partition)
            place = TopicPartition(job.offsets_topic, partition_for(key, job.offsets_partitions))
            last = share.upstream_end - 1
            headers = (*epoch_headers(state.epochs.at(last)), *copied_to_headers(state.copied_with(share), last + 1))
            records[place].append((key, source_offset_value(last), headers))
            owners[place].append(state)
            segments = map_records(state, share)
            if segments:
                place = TopicPartition(job.segments_topic, segment_partition(topic, partition, job.segments_partitions))
                records[place] += segments
                owners[place].append(state)
        await self._add(list(records), owners=owners)
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        leaderless = []
        for place in records:
            leader = self._target.leader(*place)
            if leader is None:
                leaderless.append(place)
            else:
                by_leader[leader].append(place)
        if leaderless:
            due = dict.fromkeys(state for place in leaderless for state in owners[place])
            raise ChunkFailed(self._target.leaderless(*leaderless[0]), tuple(due))
        bodies = {place: list(in_batches(pairs, STATE_BATCH_BYTES)) for place, pairs in records.items()}
        for leader, places in by_leader.items():
            # Each request carries one batch of a partition; hardly ever is there a second one.
            for number in range(max(len(bodies[place]) for place in places)):
                some = {place: bodies[place][number] for place in places if number < len(bodies[place])}
                await self._send_state(leader, some, owners)
        await self._sending.finish()

    async def _send_state(
        self,
        leader: int,
        records: Mapping[TopicPartition, Sequence[Entry]],
        owners: Mapping[TopicPartition, Sequence[RangeState]],
    ) -> None:
        producer = self._producer
        bit = TRANSACTIONAL if producer.transactional else 0
        now_ms = int(time.time() * 1000)
        bodies = {place: plain_records(pairs) for place, pairs in records.items()}
        size = sum(HEADER_SIZE + len(body) for body in bodies.values())
        await self._sending.room(leader, list(records), size)
        batches = []
        for place, pairs in records.items():
            count, body = len(pairs), bodies[place]
            header = stamp(
                bit,
                count - 1,
                now_ms,
                now_ms,
                count,
                body,
                producer.producer_id,
                producer.epoch,
                producer.take(place, count),
            )
            batches.append(Outgoing(place, owners[place], None, header, body))
        await self._sending.post(leader, batches, size, None)

    async def drain(self, seconds: float) -> bool:
        """Wait for the answers of a failed chunk; True when each request of it was answered: none can still arrive
        at the broker."""
        return await self._sending.drain(seconds)

    def abandon(self) -> None:
        """Forget the chunk; connections with unanswered requests are closed, so that no late bytes follow."""
        self._sending.abandon()
        self._reset()

    def _reset(self) -> None:
        """An empty chunk."""
        self._sending.start()
        self.bytes = 0
        self._runs = 0
        self._dead_letters.clear()
        self.opened_at = 0.0


def _with_more(waiting: Mapping[int, Sequence[Turn]]) -> dict[int, list[Turn]]:
    left = {leader: [turn for turn in turns if turn.look()] for leader, turns in waiting.items()}
    return {leader: turns for leader, turns in left.items() if turns}


__all__ = ["Chunk", "ChunkFailed"]
