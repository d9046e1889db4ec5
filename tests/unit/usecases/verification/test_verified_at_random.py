"""Copies of runs at random: what nobody has broken raises no alarm, and what was broken at a random place does.

A thousand rounds with ``pytest -m soak``; ``SRM_VERIFIED_SEED`` is the first seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
from confluent_kafka import Producer

from srm_common.domain.flow import OnDataLoss
from srm_common.domain.verification.verification import Against, PartitionVerified, Verdict, Verification
from srm_common.testing import FakeCluster
from srm_common.testing.fake_cluster.log import PartitionLog
from srm_common.testing.fake_cluster.records import Record, batch_of, records_of, stored
from srm_common.usecases.offsets.edit_source_offsets import Request, edit_source_offsets
from srm_common.usecases.offsets.source_offsets import committed_now
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.verification.verify_copies import verify_copies
from tests.examples import examples
from tests.unit.usecases.fakes import Sides

FIRST = int(os.environ.get("SRM_VERIFIED_SEED", "0"))
PARTITIONS = 2
COPY = "a.orders"


class Story:
    """A flow of one topic that is written to and run, while retention and the log cleaner work on both sides."""

    def __init__(self, sides: Sides, seed: int) -> None:
        self.sides = sides
        self.dice = random.Random(seed)
        self.compacted = self.dice.random() < 0.3
        self.taken = self.again = False
        self._written = self._runs = 0
        config = {"cleanup.policy": "compact"} if self.compacted else {}
        if self.dice.random() < 0.2:
            config["message.timestamp.type"] = "LogAppendTime"
        sides.source.create_topic("orders", PARTITIONS, config=config)
        sides.set(
            admin_timeout_ms=60_000,
            retry_timeout_seconds=60.0,
            on_target_loss=OnDataLoss.SKIP,
            chunk_bytes=self.dice.choice([1_000, 10_000, 64 << 20]),
            compression_type=self.dice.choice(["producer", "producer", "zstd"]),
        )
        sides.refresh()

    def tell(self) -> None:
        """Some steps, and at the end all is copied."""
        steps: list[Callable[[], object]] = [self.write, self.write_transactions, self.run, self.join, self.move_back]
        steps += [self.compact] if self.compacted else [self.retain]
        weights = [4, 2, 4, 1, 1, 1]
        for step in self.dice.choices(steps, weights, k=self.dice.randint(3, 8)):
            step()
        self.write()
        self.run()

    def write(self) -> None:
        """Some batches, of any codec and size."""
        self._write(self._producer())

    def write_transactions(self) -> None:
        """Some are aborted."""
        producer = self._producer({"transactional.id": f"writer-{self._written}"})
        producer.init_transactions(60)
        for _ in range(self.dice.randint(1, 3)):
            producer.begin_transaction()
            self._write(producer)
            if self.dice.random() < 0.3:
                producer.abort_transaction(60)
            else:
                producer.commit_transaction(60)

    def _producer(self, more: dict[str, str] | None = None) -> Producer:
        codec = self.dice.choice(["none", "lz4", "gzip"])
        size = self.dice.choice([200, 2_000, 1_000_000])
        own = {"compression.type": codec, "batch.size": size, "linger.ms": 5}
        return Producer({"bootstrap.servers": self.sides.source.bootstrap_servers, **own, **(more or {})})

    def _write(self, producer: Producer) -> None:
        for _ in range(self.dice.randint(1, 40)):
            self._written += 1
            key = b"%d" % self.dice.randint(0, 9)
            value = None if self.dice.random() < 0.05 else b"%d " % self._written * self.dice.randint(1, 40)
            headers: list[tuple[str, str | bytes | None]] = [("h", b"x")] if self.dice.random() < 0.3 else []
            producer.produce("orders", value, key, self.dice.randrange(PARTITIONS), headers=headers)
        producer.flush(60)

    def run(self) -> None:
        """Copy what is new."""
        self._runs += 1
        assert not self.sides.run(f"r{self._runs}").error

    def join(self) -> None:
        """Segments of chunks become one."""
        sync_checkpoints(self.sides.clusters(), at_once=True)

    def move_back(self) -> None:
        """Some of what was copied is to be copied again."""
        clusters = self.sides.clusters()
        offsets = {
            place: self.dice.randint(0, offset)
            for place, offset in committed_now(clusters).items()
            if self.dice.random() < 0.7
        }
        if offsets:
            edits = edit_source_offsets(clusters, Request("set", offsets))
            self.again = self.again or any(edit.changes for edit in edits)

    def retain(self) -> None:
        """Retention on either side; at the source of what is copied."""
        self.run()
        for log in (*self._logs(self.sides.source, "orders"), *self._logs(self.sides.target, COPY)):
            if self.dice.random() < 0.4 and log.end > log.start:
                log.delete_before(self.dice.randint(log.start, log.end))
                self.taken = True

    def compact(self) -> None:
        """The cleaner on either side."""
        self.run()
        for log in (*self._logs(self.sides.source, "orders"), *self._logs(self.sides.target, COPY)):
            if self.dice.random() < 0.5:
                log.compact()

    def _of_records(self, partition: int) -> list[int]:
        """Which batches of a copy are no markers."""
        return [number for number, one in enumerate(self.sides.target.log(COPY, partition).batches) if not one.control]

    def _logs(self, cluster: FakeCluster, topic: str) -> list[PartitionLog]:
        return [cluster.log(topic, partition) for partition in range(PARTITIONS)]

    def verified(self, against: Against) -> Verification:
        """What a verification finds."""
        return verify_copies(self.sides.clusters(), against=against)

    def break_it(self) -> None:
        """One batch of the copy is lost, or other than it was; or the log is cut there, and the flow goes on."""
        partition = self.dice.choice([number for number in range(PARTITIONS) if self._of_records(number)])
        log = self.sides.target.log(COPY, partition)
        at = self.dice.choice(self._of_records(partition))
        fault = self.dice.choice(["lost", "value", "key", "time", "checksum", "cut", "cut"])
        one = log.batches[at]
        if fault == "cut":
            # Sometimes with the marker before it.
            if at and log.batches[at - 1].control and self.dice.random() < 0.5:
                one = log.batches[at - 1]
            self.sides.target.move_leader(COPY, partition, keep=one.header.base_offset)
            self.write()
            self.run()
        elif fault == "lost":
            del log.batches[at]
        elif fault == "checksum":
            broken = bytearray(one.data)
            broken[-1] ^= 1
            log.batches[at] = stored(bytes(broken), one.header.base_offset, one.header.leader_epoch)
        else:
            records = list(records_of(one))
            number = self.dice.randrange(len(records))
            records[number] = _changed(records[number], fault)
            log.batches[at] = stored(batch_of(records, like=one.header), one.header.base_offset, 0)


def _changed(record: Record, fault: str) -> Record:
    if fault == "value":
        return record._replace(value=b"other")
    return record._replace(key=b"k") if fault == "key" else record._replace(timestamp_ms=record.timestamp_ms + 1)


@contextmanager
def story(seed: int) -> Iterator[Story]:
    with FakeCluster() as source, FakeCluster() as target, closing(Sides(source, target)) as sides:
        found = Story(sides, seed)
        found.tell()
        yield found


def check(seed: int) -> None:
    """One round."""
    with story(seed) as one:
        for against in Against:
            verification = one.verified(against)
            told = [
                str(difference)
                for partition in verification.partitions
                for difference in partition.findings.differences
            ]
            assert verification.clean, (seed, against, told, [partition.fault for partition in verification.partitions])
            if not (one.compacted or one.taken or one.again):
                assert verification.counts.keys() <= {Verdict.PROVED, Verdict.NOTHING}, (
                    seed,
                    against,
                    left(verification.partitions),
                )
        if one.compacted or one.taken or one.again:
            return  # what the cleaner has thinned and what was copied again are not proved, and need not show
        one.break_it()
        for against in Against:
            assert not one.verified(against).clean, (seed, against)


def left(partitions: tuple[PartitionVerified, ...]) -> list[dict[str, int]]:
    return [{str(reason): count for reason, count in partition.findings.not_proved.items()} for partition in partitions]


@pytest.mark.parametrize("seed", range(FIRST, FIRST + examples(20)))
def test_what_is_clean_raises_no_alarm_and_what_is_broken_does(seed: int) -> None:
    check(seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(FIRST + 20, FIRST + 1000))
def test_a_thousand_rounds(seed: int) -> None:
    check(seed)
