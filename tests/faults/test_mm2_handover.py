"""The real MirrorMaker 2 goes on where we stopped, and we where it stopped: no gap, no repetition."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from srm_common.domain.flow.names import ConnectNames
from srm_common.domain.moving.handover import Handback, Takeover, Verdict
from srm_common.domain.offsets.translation import Translated
from srm_common.errors import FlowRunning
from srm_common.kafka.client.links.link import LATEST
from srm_common.kafka.state.segment_log import SegmentLog
from srm_common.kafka.state.state_reader import LogRecord, StateReader
from srm_common.kafka.transactions.producer import Producer
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.driver.state_transaction import rewritten_offsets, write_transaction
from srm_common.testing import LocalKafka, LocalMirrorMaker
from srm_common.usecases.mirror_maker.handback import HandbackRequest, hand_back
from srm_common.usecases.mirror_maker.takeover import TakeoverRequest, take_over
from srm_common.wire.state.mm2 import (
    parse_source_offset_key,
    parse_source_offset_value,
    partition_for,
    source_offset_key,
    source_offset_value,
)
from srm_common.wire.state.plain_records import NewRecord
from tests.faults.mirror_maker import mirror_maker
from tests.faults.run import PATIENCE
from tests.faults.scenario import LONG, SOURCE, Scenario

pytestmark = [pytest.mark.faults, pytest.mark.kafka]

Clusters = tuple[LocalKafka, LocalKafka]
MakeScenario = Callable[..., Scenario]


@pytest.fixture
def clusters() -> Iterator[Clusters]:
    """MirrorMaker's worker topics are one flow's: each test has its own brokers."""
    with LocalKafka(name="source") as source, LocalKafka(name="target") as target:
        yield source, target


@contextmanager
def _mirror_maker(scenario: Scenario, *, exactly_once: bool) -> Iterator[LocalMirrorMaker]:
    """MirrorMaker 2 for the scenario's flow, with the settings that its exactly-once support needs."""
    with mirror_maker(scenario.source, scenario.target, scenario.topic, exactly_once=exactly_once) as started:
        scenario.note("MirrorMaker started")
        yield started


def _let_it_copy(scenario: Scenario, mirror_maker: LocalMirrorMaker, offsets: int = 500) -> None:
    """Return when MirrorMaker has copied so many offsets more of every partition."""
    before = scenario.copied_ends()
    deadline = time.monotonic() + PATIENCE
    while any(end < before[partition] + offsets for partition, end in scenario.copied_ends().items()):
        assert mirror_maker.running, mirror_maker.log_path.read_text()[-3000:]
        assert time.monotonic() < deadline, mirror_maker.log_path.read_text()[-3000:]
        time.sleep(0.1)
    scenario.note(f"MirrorMaker has copied {offsets} offsets of every partition")


def _kill_some_runs(scenario: Scenario, times: int) -> None:
    """Runs of ours that end inside transactions, some with their offsets already written.

    Each commits something of every partition first: where nothing was, there is nothing to prove.
    """
    for _ in range(times):
        before = scenario.copied_ends()
        run = scenario.start_run(LONG)
        while any(end <= before[partition] for partition, end in scenario.copied_ends().items()):
            scenario.wait_for_copied(run, scenario.copied_offsets() + 1)
        scenario.pause(0.0, 0.4)
        run.kill_all()


def _leave_aborted_offsets(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> int:
    """A run that ended after it wrote its offsets, before the commit; how many keys. A kill seldom hits the moment."""
    ahead = {
        key: source_offset_value((parse_source_offset_value(value) or 0) + 10)
        for key, value in _last_seen(scenario, committed=True).items()
        if parse_source_offset_key(key) is not None
    }
    never = source_offset_key(SOURCE, "never-committed", 0)

    async def stopped_before(self: Producer) -> None:
        """Nothing is sent."""

    with Ownership.take(scenario.flow, 2, 2) as owner, monkeypatch.context() as patch:
        patch.setattr(Producer, "commit", stopped_before)
        topic, partitions = scenario.state.offsets_topic, scenario.state.offsets_partitions
        entries = [*ahead.items(), (never, source_offset_value(7))]
        records = [NewRecord(topic, partition_for(key, partitions), key, value) for key, value in entries]
        write_transaction(scenario.flow, owner.identities[0], records)
    return len(ahead) + 1


def _last_seen(scenario: Scenario, *, committed: bool) -> dict[bytes, bytes | None]:
    """The last value of each source offset's key."""
    topic, partitions = scenario.state.offsets_topic, range(scenario.state.offsets_partitions)
    with StateReader(scenario.flow.target, committed=committed) as reader:
        ends = reader.offsets(topic, partitions, LATEST)
        return {key: record.value for key, record in reader.last_records(topic, ends=ends).items()}


def _take_over(scenario: Scenario) -> Takeover:
    """Take the flow over, as soon as MirrorMaker's workers have left their group: a killed one is missed after 6 s."""
    request = TakeoverRequest(ConnectNames.dedicated(scenario.flow.name), watch_seconds=1.0)
    deadline = time.monotonic() + PATIENCE
    taken = None
    while taken is None:
        try:
            taken = take_over(scenario.flow, request)
        except FlowRunning as error:
            if time.monotonic() > deadline or "workers of MirrorMaker 2 are in group" not in str(error):
                raise
            time.sleep(0.5)
    assert taken.written, taken.obstacles
    for position in taken.positions:
        scenario.note(f"{position.topic}-{position.partition}: {position.verdict}, {position.proof}")
    return taken


def _hand_back(scenario: Scenario) -> Handback:
    handed = hand_back(scenario.flow, HandbackRequest(ConnectNames.dedicated(scenario.flow.name)))
    assert handed.written, handed.obstacles
    assert {position.verdict for position in handed.positions} == {Verdict.PROVED}
    return handed


def _check_translation(scenario: Scenario, taken: Takeover) -> None:
    """Whoever goes on from a translated offset reads first what he had not read, and it is called exact.

    Asked within the records that were compared at the take-over, which MirrorMaker copied, and behind them.
    """
    segments = scenario.state.segments_topic
    with StateReader(scenario.flow.source) as source, StateReader(scenario.flow.target) as target:
        log = SegmentLog(target, segments, target.partitions(segments))
        log.read_new({})
        for handover_position in taken.positions:
            assert handover_position.position is not None
            number, positions = (
                handover_position.partition,
                range(handover_position.position - 40, handover_position.position + 40),
            )
            answers = {position: log.translate(scenario.topic, number, position) for position in positions}
            first = answers[positions.start]
            assert isinstance(first, Translated)
            here = _window(source, scenario.topic, number, positions.start)
            there = _window(target, scenario.remote, number, first.offset)
            for position, answer in answers.items():
                assert isinstance(answer, Translated), (position, answer)
                assert answer.exact
                unread = next(record for record in here if record.offset >= position)
                read = next(record for record in there if record.offset >= answer.offset)
                assert (read.key, read.value, read.timestamp_ms) == (unread.key, unread.value, unread.timestamp_ms)


def _window(reader: StateReader, topic: str, partition: int, start: int) -> list[LogRecord]:
    """Some hundred offsets of a log."""
    end = reader.offsets(topic, [partition], LATEST)[partition]
    return reader.read(topic, {partition: start}, {partition: min(end, start + 1000)})


@pytest.mark.parametrize("end", [pytest.param("stopped", marks=pytest.mark.soak), "killed"])
def test_there_and_back_exactly_once(clusters: Clusters, scenario: MakeScenario, end: str) -> None:
    """MirrorMaker first, then our runs, some of them killed, then MirrorMaker again, then us: without any command."""
    one = scenario(*clusters)
    with one.writing(rate=2000):
        for _ in range(2):
            with _mirror_maker(one, exactly_once=True) as mirror_maker:
                _let_it_copy(one, mirror_maker)
                if end == "stopped":
                    mirror_maker.stop()
                else:
                    mirror_maker.kill()
            _kill_some_runs(one, 1)
            one.last_run()
    one.last_run()
    one.verify(alone=False)


def test_back_to_one_without_exactly_once_and_taken_over_after_its_death(
    clusters: Clusters, scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It believes offsets of aborted transactions, unless the committed ones are written once more; and it stores its
    own from time to time, so that what it copied since its start would come again after a kill."""
    one = scenario(*clusters, chunk_seconds=0.05)
    with one.writing(rate=2000):
        _kill_some_runs(one, 1)
        left = _leave_aborted_offsets(one, monkeypatch)
        committed = _last_seen(one, committed=True)
        believed = _last_seen(one, committed=False)
        # The killed run may have left some more.
        aborted = sum(committed.get(key) != value for key, value in believed.items())
        assert aborted >= left
        assert _hand_back(one).rewritten == aborted
        assert rewritten_offsets(one.flow, one.state) == []
        seen = _last_seen(one, committed=False)
        assert {key: value for key, value in seen.items() if value is not None} == committed
        one.note(f"{aborted} offsets of aborted transactions are set right")
        with _mirror_maker(one, exactly_once=False) as mirror_maker:
            _let_it_copy(one, mirror_maker)
            mirror_maker.kill()
        taken = _take_over(one)
        verdicts = {position.verdict for position in taken.positions}
        assert Verdict.AHEAD in verdicts
        assert verdicts <= {Verdict.AHEAD, Verdict.PROVED}
        one.last_run()
    one.last_run()
    one.verify(alone=False)
    _check_translation(one, taken)


@pytest.mark.soak
def test_mirror_maker_that_stood_still_is_refused(clusters: Clusters, scenario: MakeScenario) -> None:
    """Forgotten and frozen while we take the flow over: what it sends when it wakes up is not taken."""
    one = scenario(*clusters)
    with one.writing(rate=2000), _mirror_maker(one, exactly_once=True) as mirror_maker:
        _let_it_copy(one, mirror_maker)
        mirror_maker.pause()
        run = one.start_run(LONG)
        one.wait_for_copied(run, one.copied_offsets() + 1000)
        mirror_maker.resume()
        one.pause(3.0, 4.0)
        run.signal_all(signal.SIGKILL)
        mirror_maker.kill()
        one.last_run()
    one.last_run()
    one.verify(alone=False)
