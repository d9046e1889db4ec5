"""Interprets Fetch responses for ranges: batches, faults, and responses with neither.

A position advances past offsets for two reasons only: a batch that contains them or begins after them, or proof that
compaction removed them (:mod:`srm_common.kafka.log.empty_answers`). Offsets count as lost only if the leader's own log
offsets show it: an error in a Fetch response may come from a replica, an outdated leader or a remote store.

Transactions are proved: none of their records is copied before the COMMIT marker was read. Brokers do not list all
aborted transactions (:mod:`srm_common.wire.batches.visibility`). So where an answer ends between records and their
marker, the marker is searched for, and remembered for later answers.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

from srm_common.domain.flow.principals import Right
from srm_common.domain.runs.copying import CopyJob
from srm_common.domain.runs.data_loss import Bookmark, EpochEnd, Finding, SourceLog, find_loss
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import AccessDenied, CorruptBatch, DataLost, NoSuchPartition, PartitionError, SrmError
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.log.empty_answers import EmptyAnswers, Silence
from srm_common.kafka.log.log_facts import log_facts
from srm_common.kafka.log.preferred_replicas import PreferredReplicas
from srm_common.kafka.log.transaction_markers import Marker, MarkerSearch, find_markers
from srm_common.replication.slots.blocks import Portion
from srm_common.replication.slots.ranges import RangeState
from srm_common.wire.batches.batch import TRANSACTIONAL, SourceBatch, split, verify
from srm_common.wire.batches.visibility import Visible, visible
from srm_common.wire.protocol import fetch
from srm_common.wire.reencoding.repack import in_a_row
from srm_common.wire.reencoding.small_batches import SmallBatches

#: A search that brings nothing for so long counts as a fault of its partition, which is read again.
_SILENCE_SECONDS = 10.0


class Proofs:
    """The markers that one reader of one cluster has seen ahead of its positions.

    Args:
        note: called once for each broker that left an aborted transaction out.
        heard: called with each response.
    """

    def __init__(self, link: ClusterLink, note: Callable[[str], None], heard: Callable[[], None]) -> None:
        self._link = link
        self._note = note
        self._heard = heard
        self._ahead: dict[TopicPartition, dict[int, Marker]] = {}
        self._told: set[tuple[TopicPartition, int]] = set()

    def missing(self, portions: Sequence[Portion]) -> bool:
        """Whether markers of these portions still have to be found."""
        return any(portion.unproved for portion in portions)

    async def find(self, portions: Sequence[Portion], node: int) -> dict[TopicPartition, SrmError]:
        """Look for the markers, and leave out what was aborted; returns why that failed, by partition.

        Args:
            node: the broker that has answered.
        """
        searches = []
        for portion in portions:
            place = portion.state.upstream
            ahead = self._ahead.get(place, {})
            known = {one: marker for one, marker in ahead.items() if marker.follows(portion.next_offset)}
            unknown = {one: first for one, first in portion.unproved.items() if one not in known}
            if unknown:
                searches.append(MarkerSearch(place, portion.next_offset, unknown, dict(known)))
            self._ahead[place] = known
        await find_markers(self._link, searches, _SILENCE_SECONDS, self._heard)
        faults: dict[TopicPartition, SrmError] = {}
        for search in searches:
            if search.fault is not None:
                faults[search.place] = search.fault
            else:
                self._ahead[search.place] = search.found
        for portion in portions:
            place = portion.state.upstream
            if place not in faults:
                try:
                    self._leave_out(portion, node)
                except CorruptBatch as error:
                    faults[place] = CorruptBatch(f"partition {place[0]}-{place[1]}: {error}")
        return faults

    def _leave_out(self, portion: Portion, node: int) -> None:
        place = portion.state.upstream
        aborted = {one: first for one, first in portion.unproved.items() if self._ahead[place][one].aborted}
        if aborted:
            self.tell(place, node)
            kept = []
            for batch in portion.batches:
                header = batch.header
                first = aborted.get(header.producer_id) if header.attributes & TRANSACTIONAL else None
                if first is None or header.base_offset < first:
                    kept.append(batch)
                else:
                    verify(batch)
            portion.batches = kept
        portion.unproved = {}

    def tell(self, place: TopicPartition, node: int) -> None:
        """A broker has given out aborted records as committed ones."""
        if (place, node) not in self._told:
            self._told.add((place, node))
            self._note(
                f"broker {node} of {self._link.alias} gave out aborted records of partition {place[0]}-{place[1]} as "
                f"committed; they were left out, by the marker of their transaction"
            )


#: Brokers answer so for a topic that was deleted, whether or not there is another one of its name.
_GONE = frozenset({codes.UNKNOWN_TOPIC_OR_PARTITION, codes.UNKNOWN_TOPIC_ID, codes.INCONSISTENT_TOPIC_ID})
#: The pause between a replica's failure and the request to the leader.
_REPLICA_PAUSE_SECONDS = 0.05

Fault = Callable[[Sequence[RangeState], str | SrmError], None]
"""Something retriable happened to ranges."""
Spawn = Callable[[Callable[[], Awaitable[None]]], None]
"""Starts a coroutine in the background; an exception in it ends the slot."""


class Answers:
    """The answers of one source.

    Args:
        replicas: learns where the leaders want partitions to be read.
        proofs: notified of brokers that do not list aborted transactions.
        fault: called with retriable faults.
        spawn: starts requests to the leaders.
        note: called with what the slot waits for.
    """

    def __init__(
        self,
        job: CopyJob,
        source: ClusterLink,
        replicas: PreferredReplicas,
        proofs: Proofs,
        fault: Fault,
        spawn: Spawn,
        note: Callable[[str], None],
    ) -> None:
        self._job = job
        self._source = source
        self._replicas = replicas
        self._proofs = proofs
        self._fault = fault
        self._spawn = spawn
        self._note = note
        self._silences = EmptyAnswers(source, job.retry_timeout_seconds)
        self._noted: set[int] = set()
        self._generation = 0

    def discard(self) -> None:
        """Ranges restart from earlier offsets, to which pending responses do not apply."""
        self._generation += 1

    def read(self, answer: fetch.FetchAnswer, states: Sequence[RangeState], node: int) -> list[Portion]:
        """Process what ``node`` answered for these ranges; returns the portions that advance them."""
        # Looked up by plain pairs, which cost less, for each partition of each answer.
        by_name: dict[tuple[str, int], RangeState] = {state.upstream: state for state in states}
        portions = []
        # Only the first partition with data gets a whole batch whatever its size (KIP-74): a later one without data may
        # have had no room.
        starved = answer.throttle_time_ms > 0
        for part in answer.partitions:
            no_room, starved = starved, starved or len(part.records) > 0
            state = by_name.get((part.topic, part.partition))
            if state is None:
                continue
            if part.error_code:
                self._refused(state, part, node)
            elif part.diverging is not None:
                self._parted(state, part, EpochEnd(*part.diverging), node)
            elif part.preferred_replica >= 0:
                self._replicas.named(state.upstream, part.preferred_replica)
            else:
                portion = self._brought(state, part, node, no_room)
                if portion is not None:
                    portions.append(portion)
        return portions

    def _brought(self, state: RangeState, part: fetch.FetchedPartition, node: int, no_room: bool) -> Portion | None:
        stable = part.last_stable_offset if self._job.read_committed else part.high_watermark
        state.reads()
        state.log_ends(stable)
        row = in_a_row(part.records)
        if row is not None:
            portion = _portion_of_row(state, row)
        else:
            seen = visible(split(part.records), part.aborted if self._job.read_committed else None)
            if seen.unlisted:
                self._proofs.tell(state.upstream, node)
            try:
                portion = _portion(state, seen)
            except CorruptBatch as error:
                state.stop_at(state.fetched, CorruptBatch(f"partition {_name(state)}: {error}"))
                return None
        if portion.next_offset > state.fetched:
            self._silences.ended(state.upstream)
            state.empty_answers = 0
            state.waits_for = ""
            state.fetched = portion.next_offset
            return portion
        if not state.behind:
            return None
        state.empty_answers += 1
        return None if no_room else self._brought_nothing(state, part, node, stable)

    def _brought_nothing(
        self, state: RangeState, part: fetch.FetchedPartition, node: int, stable: int
    ) -> Portion | None:
        goes_on = not len(part.records) and stable >= state.end
        silence = self._silences.add(state.upstream, state.fetched, node, empty_to=state.end if goes_on else 0)
        if silence.proved_to > state.fetched:
            self._silences.ended(state.upstream)
            end = state.fetched = min(silence.proved_to, state.end)
            state.empty_answers = 0
            state.waits_for = ""
            return Portion(state, (), end, end)
        reason = self._silences.given_up(silence)
        if reason is not None:
            state.waits_for = ""
            state.give_up(PartitionError(reason))
            return None
        pause = silence.pause_seconds
        if pause:
            state.pause_until = time.monotonic() + pause
            state.waits_for = self._silences.describe(silence)
            self._replicas.failed(state.upstream)
        if silence.wants_facts:
            silence.asked_at = time.monotonic()
            self._spawn(lambda: self._ask(state, silence))
        return None

    async def _ask(self, state: RangeState, silence: Silence) -> None:
        try:
            await self._silences.ask(silence)
        except RetriableFault as error:
            self._fault([state], f"partition {_name(state)}: {error}")
        except AccessDenied as error:
            self._fault([state], error)
        if silence.remote and silence.node not in self._noted:
            self._noted.add(silence.node)
            self._note(f"waiting for the remote store: {self._silences.describe(silence)}")

    def _refused(self, state: RangeState, part: fetch.FetchedPartition, node: int) -> None:
        code = part.error_code
        place = f"partition {_name(state)} at {self._source.alias}"
        if code == codes.OFFSET_OUT_OF_RANGE:
            self._doubt(state, node, codes.name(code))
        elif self._ask_leader(state, node):
            return
        elif code in codes.DENIED:
            state.stop_at(
                state.fetched,
                AccessDenied(
                    f"partition {_name(state)}: reading is not allowed at {self._source.alias}; "
                    f"{Right('Read', 'topic', state.upstream[0]).missing(self._source.settings)}"
                ),
            )
        elif code in _GONE:
            self._fault([state], NoSuchPartition(f"{place} does not exist, or was deleted"))
        elif codes.retriable(code) or code == codes.UNKNOWN_SERVER_ERROR:
            # The latter is how a remote store's failure shows; Java's consumer retries, too.
            self._fault([state], f"{place}: {codes.name(code)}")
        else:
            state.stop_at(
                state.fetched,
                PartitionError(f"partition {_name(state)}: the source answered {codes.name(code)}"),
            )

    def _ask_leader(self, state: RangeState, node: int) -> bool:
        """Whether the response was from a replica, or a former leader; if so, the leader is queried next."""
        failed = self._replicas.failed(state.upstream)
        if not failed and node == self._source.leader(*state.upstream):
            return False
        state.pause_until = time.monotonic() + _REPLICA_PAUSE_SECONDS
        return True

    def _parted(self, state: RangeState, part: fetch.FetchedPartition, epoch_end: EpochEnd, node: int) -> None:
        """The log is not the one that was copied (KIP-595). If it parted before the position, nothing has to be asked,
        and by the time of an answer retention might have removed the place."""
        log = SourceLog(*state.upstream, part.log_start_offset, part.high_watermark, epoch_end=epoch_end)
        lost = find_loss(_bookmark(state), log)
        if lost is None or epoch_end.offset >= state.fetched:
            self._doubt(state, node, "another log")
        elif not self._ask_leader(state, node):
            _lose(state, lost)

    def _doubt(self, state: RangeState, node: int, answer: str) -> None:
        """The position seems to be outside the log: query the leader, and let the range wait for its response."""
        if self._ask_leader(state, node):
            return
        state.fetching = True
        generation = self._generation

        async def settle() -> None:
            before = _bookmark(state)
            fault: str | SrmError
            try:
                facts = await log_facts(self._source, state.upstream, before.leader_epoch)
            except RetriableFault as error:
                fault = f"partition {_name(state)}: {error}"
            except AccessDenied as error:
                fault = error
            else:
                if generation != self._generation:
                    # The chunk was started over meanwhile: the range asks again, with the epochs that it knows.
                    return
                compacted = facts.compacted is not False
                log = SourceLog(*state.upstream, facts.start, facts.end, epoch_end=facts.epoch_end, compacted=compacted)
                lost = find_loss(before, log)
                if lost is not None:
                    state.fetching = False
                    _lose(state, lost)
                    return
                fault = (
                    f"partition {_name(state)} at {self._source.alias}: broker {node} answered {answer} for offset "
                    f"{before.offset}, although the log has the offsets {facts.start} to {facts.end}"
                )
                # Inconclusive: a log without epochs, or one that compaction took the epoch's batches from.
                state.epochs.clear()
            if generation == self._generation:
                state.fetching = False
                self._fault([state], fault)

        self._spawn(settle)


def _bookmark(state: RangeState) -> Bookmark:
    return Bookmark(state.fetched, leader_epoch=state.epochs.at(state.fetched - 1))


def _lose(state: RangeState, lost: Finding) -> None:
    state.stop_at(lost.bookmark.offset, DataLost(f"{lost}; the next run applies on.data.loss"))


def _portion(state: RangeState, seen: Visible) -> Portion:
    first = next_offset = state.fetched
    wanted: list[SourceBatch] = []
    epochs, end = state.epochs, state.end
    # Adjacent batches of one epoch are added as one span.
    span = span_end = epoch = -1
    for batch, data in seen.batches:
        header = batch.header
        base = header.base_offset
        after = base + header.last_offset_delta + 1
        if after <= first:
            continue
        if span_end < 0 or header.leader_epoch != epoch or base < span_end:
            if span_end >= 0:
                epochs.add(span, span_end, epoch)
            span, epoch = base, header.leader_epoch
        span_end = after
        if base >= end and header.magic >= 2:
            next_offset = end
            break
        next_offset = after if after < end else end
        if data:
            wanted.append(batch)
    if span_end >= 0:
        epochs.add(span, span_end, epoch)
    # Batches before a fault are good; the next answer begins with the fault.
    if seen.fault is not None and next_offset == first:
        raise seen.fault
    unproved = {producer: offset for producer, offset in seen.unproved.items() if offset < next_offset}
    return Portion(state, wanted, first, next_offset, unproved)


def _portion_of_row(state: RangeState, row: SmallBatches) -> Portion:
    """As :func:`_portion`, for batches outside of transactions and without markers."""
    first, end = state.fetched, state.end
    new = row.after(first)
    wanted = new.before(end)
    # The epoch of the first one behind the end is known as well.
    known = new[: len(wanted) + 1]
    next_offset = first
    if len(known):
        state.epochs.add(known.first_offset, known.next_offset, row.epoch)
        next_offset = min(known.next_offset, end)
    return Portion(state, wanted, first, next_offset)


def _name(state: RangeState) -> str:
    return f"{state.upstream[0]}-{state.upstream[1]}"
