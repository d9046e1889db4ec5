"""Producers at the source: plain and transactional batches, aborted ones among them, and what they have written."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from srm_common.testing import FakeCluster
from srm_common.testing.fake_cluster import Record
from srm_common.testing.fake_cluster.records import batch_of
from srm_common.wire.batches import codec
from srm_common.wire.batches.batch import CODEC_MASK, HEADER_SIZE, TRANSACTIONAL, parse_header, stamp
from tests.simulation.world import World

Partition = tuple[str, int]
_CODECS = (0, 0, 1, 3)
_FIRST_PRODUCER = 500_000


@dataclass(eq=False)
class Written:
    """A record at the source. ``committed``: None while its transaction is open; ``number``: of all that was written,
    in the order of writing."""

    record: Record
    committed: bool | None
    number: int


@dataclass(eq=False)
class _Writer:
    """A transactional producer, and what its open transaction has written."""

    producer_id: int
    epoch: int = 0
    sequences: dict[Partition, int] = field(default_factory=dict)
    open: list[tuple[Partition, Written]] = field(default_factory=list)


class Load:
    """Everything that is written to the source."""

    def __init__(self, world: World, source: FakeCluster, topics: dict[str, int], *, transactional: float) -> None:
        self._world, self._source = world, source
        self._places: list[Partition] = [(topic, number) for topic, count in topics.items() for number in range(count)]
        self._draw = world.chance("load")
        self._transactional = transactional
        self._writers = [_Writer(_FIRST_PRODUCER + number) for number in range(3)]
        self._count = self._written = 0
        #: All records of each partition by their offsets, those of aborted transactions included.
        self.written: dict[Partition, dict[int, Written]] = {place: {} for place in self._places}
        #: What an unclean election has taken again, and where retention has moved the starts of logs.
        self.cut_away: dict[Partition, list[Written]] = {place: [] for place in self._places}
        self.deleted: dict[Partition, int] = {}
        self.not_promised: dict[Partition, int] = {}

    def write(self) -> None:
        """One batch of somebody, or the end of a transaction."""
        draw = self._draw
        if draw.random() < self._transactional:
            writer = draw.choice(self._writers)
            if writer.open and draw.random() < 0.4:
                self._end(writer, committed=draw.random() < 0.6)
            else:
                self._append(draw.choice(self._places), writer)
        else:
            self._append(draw.choice(self._places), None)

    def finish(self) -> None:
        """End what is open."""
        for writer in self._writers:
            if writer.open:
                self._end(writer, committed=self._draw.random() < 0.5)

    def delete(self, draw: random.Random, promised: Callable[[Partition], bool]) -> bool:
        """Retention takes the beginning of some log. A flow that has committed nothing of it begins where the log does,
        whenever that is. Whether there was something to take."""
        place = draw.choice(self._places)
        log = self._source.log(*place)
        before = draw.randint(log.start, log.stable)
        if before <= log.start or not self._source._topics.led(*place):
            return False
        self._source.delete_records(place[0], before, place[1])
        self.deleted[place] = before
        if not promised(place):
            self.not_promised[place] = before
        return True

    def cut(self, draw: random.Random) -> bool:
        """An unclean election takes the end of some log. Never where transactions are written: one whose marker is lost
        holds readers back for good. Whether there was something to take."""
        place = draw.choice(self._places)
        log = self._source.log(*place)
        ends = [batch.header.next_offset for batch in log.batches[-8:]]
        if self._transactional or not ends or not self._source._topics.led(*place):
            return False
        keep = draw.choice([log.batches[-8:][0].header.base_offset, *ends])
        self._source.move_leader(*place, keep=keep)
        written = self.written[place]
        for offset in sorted(one for one in written if one >= keep):
            self.cut_away[place].append(written.pop(offset))
        # It has often grown again before anybody looks.
        for _ in range(draw.choice((0, 1, 6, 20))):
            self._append(place, None)
        return True

    def create_again(self, draw: random.Random) -> bool:
        """Delete a topic and create it again at once; whether it was possible. Never where transactions are written:
        those that are open end with the topic."""
        topics = self._source._topics
        topic = draw.choice(sorted({topic for topic, _ in self._places}))
        if self._transactional or not topics.controlled or len(topics.alive) < len(self._source.nodes):
            return False
        places = [place for place in self._places if place[0] == topic]
        self._source.delete_topic(topic)
        self._source.create_topic(topic, len(places))
        for place in places:
            self.cut_away[place] += self.written[place].values()
            self.written[place] = {}
            self.deleted.pop(place, None)
            self.not_promised.pop(place, None)
            # As many as the former one had, more, or fewer.
            for _ in range(draw.choice((0, 1, 6, 20))):
                self._append(place, None)
        return True

    def _append(self, place: Partition, writer: _Writer | None) -> None:
        draw = self._draw
        state = self._source._topics.partition(*place)
        if not self._source._topics.led(*place):
            return
        now_ms = self._source.clock.now_ms()
        base = state.log.end
        records = []
        for number in range(draw.choice((1, 1, 2, 5, 20))):
            self._count += 1
            key = draw.choice((None, b"", b"key-%d" % draw.randrange(4)))
            value = b"%d:" % self._count + bytes(draw.randrange(200))
            headers = (("h", b"%d" % number),) if draw.random() < 0.2 else ()
            records.append(Record(base + number, now_ms - draw.randrange(50), key, value, headers))
        plain = batch_of(records)
        header = parse_header(plain)
        kind = draw.choice(_CODECS)
        body = codec.compress(kind, plain[HEADER_SIZE:])
        sequence = 0
        if writer is not None:
            sequence = writer.sequences.get(place, 0)
            writer.sequences[place] = sequence + len(records)
        data = stamp(
            (header.attributes & ~CODEC_MASK) | kind | (TRANSACTIONAL if writer else 0),
            len(records) - 1,
            header.base_timestamp,
            header.max_timestamp,
            len(records),
            body,
            writer.producer_id if writer else -1,
            writer.epoch if writer else -1,
            sequence if writer else -1,
        )
        stored = state.log.append(data + bytes(body), now_ms)
        assert stored.header.base_offset == base, "what was written once is not written again"
        for record in records:
            self._written += 1
            written = Written(record, None if writer else True, self._written)
            self.written[place][record.offset] = written
            if writer:
                writer.open.append((place, written))
        self._source._server.wake()

    def _end(self, writer: _Writer, *, committed: bool) -> None:
        for _, written in writer.open:
            written.committed = committed
        for place in sorted({place for place, _ in writer.open}):
            log = self._source.log(*place)
            log.end_transaction(
                writer.producer_id, writer.epoch, committed=committed, now_ms=self._source.clock.now_ms()
            )
        writer.open = []
        self._source._server.wake()
