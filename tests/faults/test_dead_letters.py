"""Exactly once for dead letters, too, whatever is killed: each record is in the copy or in the dead letter topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from zlib import crc32

import pyarrow as pa
import pytest

from srm_common.records.row_faults import RowFaults
from srm_common.testing import LocalKafka
from tests.faults.run import Run
from tests.faults.scenario import KEEPS_ITS_MARKERS, Scenario, survive, take_over
from tests.faults.test_exactly_once import QUICK_TIMEOUTS
from tests.faults.verification import Record, differences, read_committed, unstable

pytestmark = [pytest.mark.faults, pytest.mark.kafka]

Clusters = tuple[LocalKafka, LocalKafka]
ORIGIN = "__connect.errors."


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    """A source and a target of this module's own: they are killed again and again."""
    target = LocalKafka(name="target", version=KEEPS_ITS_MARKERS, settings=QUICK_TIMEOUTS)
    with LocalKafka(name="source") as source, target:
        yield source, target


def refused(value: bytes | None) -> bool:
    """About every fifth record."""
    return crc32(value or b"") % 5 == 0


def refuse(records: pa.RecordBatch) -> pa.RecordBatch:
    """The flow's transform."""
    bad = {row: "refused" for row, value in enumerate(records["value"].to_pylist()) if refused(value)}
    if bad:
        raise RowFaults(bad)
    return records


class Refusing(Scenario):
    """A scenario whose flow cannot copy some of the records."""

    @property
    def letters(self) -> str:
        """The dead letter topic."""
        return self.flow.dead_letter_topic

    def verify(self, *, exactly: bool = True, alone: bool = True) -> int:
        """As that of all records, where a dead letter counts as arrived."""
        expected = read_committed(self.source.internal_servers, self.topic, self.partitions)
        actual = read_committed(self.target.internal_servers, self.remote, self.partitions)
        found = differences(
            {one: [record for record in records if not refused(record[1])] for one, records in expected.items()}, actual
        )
        assert not found, "\n".join(map(str, found))
        (letters,) = read_committed(self.target.internal_servers, self.letters, 1).values()
        failed = [(number, one) for number, records in expected.items() for one in records if refused(one[1])]
        wanted: Counter[tuple[object, ...]] = Counter((number, *one) for number, one in failed)
        got = Counter(map(self._as_it_was, letters))
        assert got == wanted, f"{(wanted - got).total()} dead letters missing, {(got - wanted).total()} too many"
        assert len({origin(letter) for letter in letters}) == len(letters)
        assert not unstable(self.target, [self.remote, self.letters, self.state.offsets_topic])
        self.note(f"{sum(map(len, actual.values()))} records are equal, {len(letters)} are dead letters")
        return len(letters)

    def _as_it_was(self, letter: Record) -> tuple[object, ...]:
        key, value, headers, timestamp = letter
        own = tuple(header for header in headers if not header[0].startswith(ORIGIN))
        return (int(origin(letter)[0]), key, value, own, timestamp)


def origin(letter: Record) -> tuple[bytes, bytes]:
    """Partition and offset at the source."""
    found = dict(letter[2])
    partition, offset = found[f"{ORIGIN}partition"], found[f"{ORIGIN}offset"]
    assert partition is not None
    assert offset is not None
    return partition, offset


@pytest.fixture
def refusing(scenario: Callable[..., Scenario], clusters: Clusters, request: pytest.FixtureRequest) -> Scenario:
    """The scenario of a test."""
    made = scenario(
        *clusters,
        kind=Refusing,
        transforms_python=f"{__name__}:refuse",
        errors_tolerance="all",
        errors_deadletterqueue_topic_name=f"dead-{request.node.name}".replace("_", "-"),
        errors_deadletterqueue_topic_replication_factor=-1,
        errors_deadletterqueue_context_headers_enable=True,
    )
    return made


def test_driver_and_workers_killed(refusing: Scenario) -> None:
    """Open transactions with dead letters are left behind, and aborted by the next run."""

    def kill(one: Scenario, run: Run) -> None:
        run.kill_all()

    assert take_over(refusing, *[kill] * 2)


def test_workers_and_target_broker_killed(refusing: Scenario) -> None:
    """The run goes on."""

    def kill_a_worker(one: Scenario, run: Run) -> None:
        run.kill_a_worker(one.dice)

    def kill_target(one: Scenario, run: Run) -> None:
        one.target.kill()
        one.pause(0.0, 1.5)
        one.target.restart()

    assert survive(refusing, kill_a_worker, kill_target)
