"""Fetch requests: one in flight to each source broker; responses wait as blocks until the chunk takes them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from srm_common.domain.runs.copying import LEAST_FETCH_WAIT_MS, CopyJob
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import ClusterError, CorruptBatch, NoSuchPartition, PartitionError, SrmError
from srm_common.kafka.client.connections.signal import Signal
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.client.protocol.buffers import Lease, Leases
from srm_common.kafka.client.protocol.fetch_request import FetchFrom, fetch_request
from srm_common.kafka.client.protocol.frames import RawFetch
from srm_common.kafka.log.compared_logs import ComparedLogs
from srm_common.kafka.log.log_facts import leader_epoch
from srm_common.kafka.log.preferred_replicas import PreferredReplicas
from srm_common.kafka.log.topic_ids import UsedTopics
from srm_common.replication.slots.answers import Answers, Proofs
from srm_common.replication.slots.blocks import Block
from srm_common.replication.slots.ranges import RangeState
from srm_common.wire.protocol import fetch

#: A broker with records answers sooner than this; after that it is waiting for records to be written.
ANSWER_SECONDS = 0.02
#: How long a slot that has ended waits for answers: longer than a round trip and the least wait.
_DRAIN_SECONDS = 0.5


class Fetching:
    """Keeps the source busy while a chunk is produced.

    Memory: two buffers of ``fetch.bytes`` divided by the number of source brokers that are read from, each; one of each
    broker grows beyond that only for an answer with a single larger batch.

    Args:
        note: called with waits that may take long.
        seconds_left: until the slot stops. By then brokers answer, even if they have nothing, so that no request is
            in flight and connections can be kept.
    """

    def __init__(
        self,
        job: CopyJob,
        source: ClusterLink,
        states: Sequence[RangeState],
        signal: Signal,
        note: Callable[[str], None] = lambda note: None,
        seconds_left: Callable[[], float] = lambda: float("inf"),
    ) -> None:
        self._job = job
        self._source = source
        self._states = states
        self._signal = signal
        self._seconds_left = seconds_left
        self._leases = Leases(job.fetch_bytes)
        self._sizes = source.fetch_sizes()
        #: The brokers that the ranges are read from, as of the last look.
        self._nodes: set[int] = set()
        self._blocks: deque[Block] = deque()
        #: Brokers with a request under way, and when it was sent.
        self._in_flight: dict[int, float] = {}
        #: Brokers that have nothing more at the moment, and until when they may collect before they are asked again.
        self._collecting: dict[int, float] = {}
        self._collect_until = 0.0
        #: Ranges of brokers that wait for a free buffer; whether, or else when, all ranges are looked at again.
        self._waiting: dict[int, list[RangeState]] = {}
        self._look = True
        self._look_at = 0.0
        self._generation = 0
        self._stale_metadata = self._refreshing = False
        self._crash: Exception | None = None
        self._tasks: set[Any] = set()
        self._replicas = PreferredReplicas(source)
        self._topics = UsedTopics(source)
        self._logs = ComparedLogs(source)
        #: Ranges whose topic was not there: they are not read before the metadata say which topic is there now.
        self._absent: set[RangeState] = set()
        #: Topics that are other ones now, with the error of their ranges.
        self._replaced: dict[str, PartitionError] = {}
        self._proofs = Proofs(source, note, signal.set)
        #: Blocks that wait for proofs.
        self._proving = 0
        self._answers = Answers(job, source, self._replicas, self._proofs, self._fault, self._spawn, note)

    @property
    def busy(self) -> bool:
        """Whether an answer is still to come or to be taken."""
        return bool(self._in_flight or self._blocks or self._proving)

    def __str__(self) -> str:
        brokers = ", ".join(str(node) for node in self._in_flight)
        if self._proving and not brokers:
            return f"the markers of transactions of {self._source.alias}"
        return f"Fetch from broker {brokers} of {self._source.alias}" if brokers else ""

    @property
    def heard_bytes(self) -> int:
        """A figure that changes while answers arrive: over a slow link, one may take minutes."""
        return int(self._source.manager.heard_bytes(self._in_flight))

    @property
    def answer_is_near(self) -> bool:
        """Whether a request was sent so recently that the broker cannot be waiting for new records yet."""
        return bool(self._in_flight) and time.monotonic() - max(self._in_flight.values()) < ANSWER_SECONDS

    def next_block(self) -> Block | None:
        """The oldest answer that is still wanted."""
        return self._blocks.popleft() if self._blocks else None

    def look_again(self) -> None:
        """Which ranges are to be read may have changed."""
        self._look = True

    def discard(self) -> None:
        """Discard what was fetched: the chunk restarts from earlier offsets."""
        self._generation += 1
        self._look = True
        self._answers.discard()
        while self._blocks:
            self._blocks.popleft().lease.release()
        for state in self._states:
            state.fetching = False

    async def finish(self) -> None:
        """The slot stops: wait a moment for answers that are on their way, since a connection with a request in flight
        cannot be kept, and cancel what is still waiting then."""
        self.discard()
        until = time.monotonic() + _DRAIN_SECONDS
        while self._tasks and (left := until - time.monotonic()) > 0:
            await self._signal.wait(left)
        for task in self._tasks:
            self._source.loop.cancel(task)
        if self._crash is not None:
            raise self._crash

    async def start(self) -> None:
        """Send a Fetch to every broker that has wanted ranges, no request in flight and a free buffer."""
        if self._crash is not None:
            raise self._crash
        if self._stale_metadata and not self._refreshing:
            self._stale_metadata = False
            self._refreshing = True
            self._spawn(self._refresh)
        now = time.monotonic()
        if self._look or now >= self._look_at:
            self._waiting = self._wanted(now)
            if not self._nodes.issuperset(self._waiting):
                self._look_for_nodes()
        for node in list(self._waiting):
            lease = self._leases.free(node, self._nodes)
            if lease is not None:
                states = [state for state in self._waiting.pop(node) if state.wants_fetch]
                if states:
                    self._send(node, states, lease)

    def _wanted(self, now: float) -> dict[int, list[RangeState]]:
        """The ranges to fetch, by broker. Checking thousands of them at each wake-up would cost more than copying
        them."""
        self._look = False
        wanted: dict[int, list[RangeState]] = {}
        later = [until for until in self._collecting.values() if until > now]
        for state in self._states:
            if state.pause_until > now:
                if not state.settled:
                    later.append(state.pause_until)
            elif state.wants_fetch and (replaced := self._replaced.get(state.upstream.topic)) is not None:
                state.give_up(replaced)
            elif state.wants_fetch and state not in self._absent:
                node = self._replicas.node(state.upstream)
                if node is None:
                    self._fault([state], self._source.leaderless(*state.upstream))
                    later.append(state.pause_until)
                elif node not in self._in_flight and self._collecting.get(node, 0.0) <= now:
                    wanted.setdefault(node, []).append(state)
        self._look_at = min(later, default=float("inf"))
        return wanted

    def _look_for_nodes(self) -> None:
        self._leave_replaced()
        nodes = {self._replicas.node(state.upstream) for state in self._states if not state.settled}
        self._nodes = {node for node in nodes if node is not None}

    def _leave_replaced(self) -> None:
        """What lies in a topic that was created since does not follow what was read. The driver looks at it again, and
        applies ``on.data.loss``; metadata may also be older than what it saw."""
        for state in self._states:
            topic = state.upstream.topic
            if topic not in self._replaced and self._topics.replaced(topic, state.spec.generation):
                self._replaced[topic] = PartitionError(
                    f"the topic was deleted and created again at {self._source.alias}; what was copied is of the "
                    f"former one, and on.data.loss says what follows"
                )
            if topic not in self._replaced:
                self._source.saw(state.upstream, max(state.spec.leader_epoch, state.spec.leading_epoch))
            elif not state.settled:
                state.give_up(self._replaced[topic])

    async def _refresh(self) -> None:
        """In the background: a broker that does not respond must not keep an open transaction waiting."""
        absent = set(self._absent)
        try:
            if await self._source.refresh():
                self._absent -= absent
            elif absent:
                self._fault([*absent], f"cluster {self._source.alias} does not list its topics")
        finally:
            self._look_for_nodes()
            self._refreshing = False

    def _spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        async def watched() -> None:
            try:
                await work()
            except Exception as error:  # the loop would only log it, and the slot would wait without end
                self._crash = error
            self._tasks.discard(task)
            self._look = True
            self._signal.set()

        task = self._source.loop.call_soon(watched)
        self._tasks.add(task)

    def _send(self, node: int, states: list[RangeState], lease: Lease) -> None:
        # The broker fills the answer in request order: ranges that got nothing come first.
        states.sort(key=lambda state: -state.empty_answers)
        for state in states:
            state.fetching = True
        lease.hold()
        self._in_flight[node] = time.monotonic()
        generation = self._generation
        readings = [state.reading for state in states]

        def arrived(answer: fetch.FetchAnswer | None, fault: str | None) -> None:
            self._arrived(generation, node, list(zip(states, readings, strict=True)), lease, answer, fault)

        async def talk() -> None:
            try:
                # Only then is it known which version the broker takes.
                await self._source.connect(node)
                wanted = [self._fetch_from(state) for state in states]
                compared = await self._logs.compare(wanted, node)
                if compared.parted or compared.faults:
                    apart = {(part.topic, part.partition) for part in compared.parted} | compared.faults.keys()
                    wanted = [one for one in wanted if (one.topic, one.partition) not in apart]
                answer = fetch.FetchAnswer(0, codes.NONE, [])
                if wanted:
                    ids = self._topics.ids((one.topic for one in wanted), node)
                    request = self._request(wanted, ids, node)
                    answer = await self._source.send(node, RawFetch(request, lease, ids))
                answer.partitions.extend(compared.parted)
            except RetriableFault as error:
                arrived(None, str(error))
            except ClusterError as error:
                if generation == self._generation:
                    for state in states:
                        state.fetching = False
                        state.give_up(error)
                arrived(None, None)
            else:
                arrived(answer, None)
                if generation == self._generation:
                    for state in states:
                        if state.upstream in compared.faults:
                            self._fault([state], compared.faults[state.upstream])

        self._spawn(talk)

    def _request(self, wanted: Sequence[FetchFrom], ids: Mapping[str, UUID] | None, node: int) -> Any:
        replicas = self._logs.by_brokers(node)
        return fetch_request(
            wanted,
            partition_bytes=self._job.fetch_partition_bytes,
            max_bytes=self._sizes.of(node, self._leases.share(self._nodes)),
            max_wait_ms=self._max_wait_ms(),
            committed=self._job.read_committed,
            rack=self._replicas.rack(TopicPartition(one.topic, one.partition) for one in wanted) if replicas else "",
            ids=ids,
        )

    def _max_wait_ms(self) -> int:
        """How long a broker may wait for records: no longer than the slot has time."""
        left_ms = self._seconds_left() * 1000
        if left_ms <= 0:  # it goes on only for ranges that are retried
            return self._job.fetch_max_wait_ms
        return int(max(min(self._job.fetch_max_wait_ms, left_ms), LEAST_FETCH_WAIT_MS))

    def _fetch_from(self, state: RangeState) -> FetchFrom:
        leading = leader_epoch(self._source, state.upstream)
        # A log that does not have the preceding offset in this epoch is a different one (KIP-595).
        last = state.epochs.at(state.fetched - 1) if leading >= 0 else -1
        # A leader of an earlier epoch responds that it does not know this one (KIP-320).
        return FetchFrom(*state.upstream, state.fetched, max(leading, last), last)

    def _arrived(
        self,
        generation: int,
        node: int,
        asked: Sequence[tuple[RangeState, int]],
        lease: Lease,
        answer: fetch.FetchAnswer | None,
        fault: str | None,
    ) -> None:
        sent_at = self._in_flight.pop(node, None)
        if answer is not None and sent_at is not None:
            self._sizes.answered(node, self._leases.share(self._nodes), time.monotonic() - sent_at)
        if generation != self._generation:
            lease.release()
        else:
            for state, _ in asked:
                state.fetching = False
            # The other ranges are read again from an earlier offset.
            states = [state for state, reading in asked if state.reading == reading]
            self._look = self._look or len(states) < len(asked)
            if answer is not None and answer.error_code:
                fault = f"broker {node} of {self._source.alias} answered {codes.name(answer.error_code)}"
            if fault is not None:
                # Where a replica failed, the leader is asked next.
                self._stale_metadata = True
                self._fault([state for state in states if not self._replicas.failed(state.upstream)], fault)
            block = Block(generation, [], lease)
            if answer is not None and fault is None:
                block.portions = self._answers.read(answer, states, node)
            if self._proofs.missing(block.portions):
                # What follows must not overtake it.
                for portion in block.portions:
                    portion.state.fetching = True
                    portion.state.fetched = portion.first_offset
                self._proving += 1
                self._spawn(lambda: self._prove(block, states, node))
            elif block.portions:
                self._blocks.append(block)
                self._let_collect(node, states)
            else:
                lease.release()

    async def _prove(self, block: Block, states: Sequence[RangeState], node: int) -> None:
        """Hold a block back until the markers of its transactions are known."""
        try:
            faults = await self._proofs.find(block.portions, node)
        finally:
            self._proving -= 1
        if block.generation != self._generation:
            block.lease.release()
            return
        for portion in block.portions:
            state = portion.state
            state.fetching = False
            error = faults.get(state.upstream)
            if portion.stale:
                continue
            if error is None:
                state.fetched = max(state.fetched, min(portion.next_offset, state.end))
            elif isinstance(error, CorruptBatch):
                state.stop_at(state.fetched, error)
            else:
                self._fault([state], error)
        block.portions = [one for one in block.portions if one.state.upstream not in faults and not one.stale]
        if block.portions:
            self._blocks.append(block)
            self._let_collect(node, states)
        else:
            block.lease.release()

    def _let_collect(self, node: int, states: Sequence[RangeState]) -> None:
        """A broker that returned all it had is asked again a little later, at the same time as all other such brokers:
        asked at once, it would answer with the very next record alone."""
        if all(state.tailing and not state.behind for state in states):
            now = time.monotonic()
            if now >= self._collect_until:
                self._collect_until = now + self._job.linger_seconds / 2
            self._collecting[node] = self._collect_until

    def _fault(self, states: Sequence[RangeState], reason: str | SrmError) -> None:
        self._stale_metadata = True
        error = PartitionError(reason) if isinstance(reason, str) else reason
        if isinstance(error, NoSuchPartition):
            self._absent.update(states)
        for state in states:
            state.fault(error, self._job.retry_timeout_seconds, at_source=True)

    @property
    def next_event(self) -> float:
        """When a range that is paused, or a broker that collects, may be asked again, in monotonic seconds."""
        return self._look_at
