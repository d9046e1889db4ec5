"""Committed offsets listed and moved by the command, as a user types it, beside runs that are or are not going on."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from srm_common.cli.main import run as srm_control
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.control_record import SOURCE_OFFSETS
from srm_common.domain.flow.start_position import OF_EDITS, StartPosition
from srm_common.domain.offsets.translation import Translated
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord, RunState
from srm_common.errors import FlowOwnedElsewhere
from srm_common.kafka.state import driver_presence
from srm_common.kafka.state.control_log import ControlLog
from srm_common.kafka.state.segment_log import SegmentLog
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_topics import ensure_state_topics
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.driver.state_transaction import write_transaction
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import LocalKafka, LocalMirrorMaker, ReservedPort
from srm_common.usecases.flows import idle_flow
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.offsets import edit_source_offsets as editing
from srm_common.usecases.offsets.edit_source_offsets import Request, edit_source_offsets
from srm_common.usecases.offsets.source_offsets import list_source_offsets
from srm_common.usecases.runs.replicate import replicate
from tests.kafka.flows import flow_between, prepare, properties_of, read, write

pytestmark = pytest.mark.kafka


def values(start: int, end: int) -> list[bytes | None]:
    return [b"%d" % number for number in range(start, end)]


def here(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
    return [copy_slot(job, task) for task in tasks]


class Scenario:
    """A flow with one topic of two partitions, and the command for it."""

    def __init__(self, flow: FlowSettings, topic: str, source: LocalKafka, target: LocalKafka, file: Path) -> None:
        self.flow, self.topic, self.source, self.target, self.file = flow, topic, source, target, file
        self.copy = f"{flow.name.source}.{topic}"
        self.capsys: pytest.CaptureFixture[str] | None = None

    def run(self, **changes: Any) -> RunRecord:
        prepare(self.flow)
        return replicate(replace(self.flow, **changes), RunOptions("r"), here)

    def control(self, *arguments: str) -> tuple[int, Any, str]:
        """Exit code, standard output as JSON where it is, standard error."""
        verb, *rest = arguments
        assert self.capsys is not None
        self.capsys.readouterr()
        line = ["source-offsets", verb, "--config", str(self.file), "--flow", str(self.flow.name), *rest, "-o", "json"]
        code = srm_control(line)
        told = self.capsys.readouterr()
        return code, json.loads(told.out) if told.out else None, told.err

    def offsets(self) -> dict[int, int | None]:
        code, answer, _ = self.control("list")
        assert code == 0
        return {one["partition"]: one["offset"] for one in answer["offsets"]}

    def copied(self, partition: int = 0) -> list[bytes | None]:
        return [one.value for one in read(self.target, self.copy, partition)]


@pytest.fixture
def scenario(
    source_kafka: LocalKafka,
    target_kafka: LocalKafka,
    name: str,
    configuration_file: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Scenario:
    monkeypatch.setattr(driver_presence, "BEAT_SECONDS", 0.2)
    monkeypatch.setattr(driver_presence, "WATCH_SECONDS", 1.0)
    flow = flow_between(source_kafka, target_kafka, name)
    source_kafka.create_topic(name, 2)
    for partition in (0, 1):
        write(source_kafka, name, values(0, 20), partition)
    made = Scenario(flow, name, source_kafka, target_kafka, configuration_file(properties_of(flow)))
    made.capsys = capsys
    return made


def test_offsets_are_listed_set_reset_and_deleted(scenario: Scenario, tmp_path: Path) -> None:
    assert scenario.control("list")[1] == {"flow": str(scenario.flow.name), "offsets": []}
    scenario.run()
    write(scenario.source, scenario.topic, values(20, 25))
    code, answer, _ = scenario.control("list")
    assert code == 0
    assert answer["offsets"] == [
        {"topic": scenario.topic, "partition": 0, "offset": 20, "log_start": 0, "log_end": 25, "lag": 5, "note": ""},
        {"topic": scenario.topic, "partition": 1, "offset": 20, "log_start": 0, "log_end": 20, "lag": 0, "note": ""},
    ]
    one = ("--topic", scenario.topic, "--partition", "0")
    planned = scenario.control("set", *one, "--offset", "15", "--dry-run")[1]
    assert planned["edits"][0]["effect"] == "goes back by 5 offsets: the next run copies them after the end of the copy"
    assert scenario.offsets() == {0: 20, 1: 20}
    done = scenario.control("set", *one, "--offset", "15")[1]
    assert done["edits"] == planned["edits"]
    assert (done["written"], scenario.offsets()) == (True, {0: 15, 1: 20})
    scenario.run()
    assert scenario.copied() == values(0, 20) + values(15, 25)

    # Back to the very first record, which MirrorMaker 2's format has no number for, also under 'latest'.
    assert scenario.control("reset", "--topic", ".*", "--to", "earliest")[0] == 0
    assert scenario.offsets() == {0: 0, 1: 0}
    scenario.run(auto_offset_reset="latest")
    assert scenario.copied(1) == values(0, 20) * 2
    assert scenario.control("reset", "--topic", scenario.topic, "--to", "latest")[1]["edits"][0]["effect"] == "as it is"

    table = tmp_path / "offsets.csv"
    table.write_text(f"topic,partition,offset\n{scenario.topic},0,24\n{scenario.topic},1,19\n")
    assert scenario.control("set", "--file", str(table))[0] == 0
    assert scenario.offsets() == {0: 24, 1: 19}
    assert scenario.control("delete", *one)[0] == 0
    listed = scenario.control("list")[1]
    assert listed["offsets"][0]["note"] == "forgotten; starts like a partition without progress"
    table.write_text(json.dumps(listed))
    assert scenario.control("set", "--file", str(table))[1]["edits"][0]["partition"] == 1
    before = len(scenario.copied())
    scenario.run()
    assert scenario.copied()[before:] == values(0, 25)

    with ControlLog(scenario.flow) as log:
        records = log.records(SOURCE_OFFSETS)
    assert [record.origin.rpartition(" ")[2] for record in records] == ["set", "reset", "set", "delete"]
    assert (records[0].before, records[0].after) == ([[scenario.topic, 0, 20]], [[scenario.topic, 0, 15]])
    assert (records[1].note, records[3].after) == ("to earliest", [[scenario.topic, 0, None]])
    assert all(record.who for record in records)


def test_what_cannot_be_is_refused_as_a_whole(scenario: Scenario) -> None:
    scenario.run()
    code, answer, _ = scenario.control("set", "--topic", scenario.topic, "--partition", "0,1,2", "--offset", "20")
    assert code == 1
    assert not answer["written"]
    assert [edit["problem"] for edit in answer["edits"]] == [
        *(None, None),
        f"the topic has no partition 2 on {scenario.flow.name.source}, only 2",
    ]
    code, answer, _ = scenario.control("set", "--topic", scenario.topic, "--partition", "0", "--offset", "21")
    assert (code, answer["edits"][0]["problem"]) == (
        1,
        "offset 21 is not in the log, which has the offsets 0 to 20",
    )
    code, answer, _ = scenario.control("set", "--topic", f"{scenario.topic}-gone", "--partition", "0", "--offset", "1")
    assert (code, answer["edits"][0]["problem"]) == (
        1,
        f"the topic does not exist on {scenario.flow.name.source}, or may not be seen",
    )
    assert scenario.offsets() == {0: 20, 1: 20}
    for arguments, sentence in (
        (("reset", "--topic", "nothing", "--to", "latest"), "has nothing that matches nothing"),
        (("reset", "--to", "latest"), "say which topics with --topic"),
        (("reset", "--topic", ".*", "--to", "noon"), "use earliest, latest, timestamp"),
        (("delete", "--topic", "["), "--topic:"),
    ):
        code, _, error = scenario.control(*arguments)
        assert (code, error.count("\n")) == (2, 1)
        assert sentence in error


def test_an_at_least_once_flow_is_moved_without_a_fence(scenario: Scenario) -> None:
    flow = replace(scenario.flow, exactly_once=False)
    scenario.run(exactly_once=False)
    to = Request("reset", topics=(scenario.topic,), partitions=(0,), to=StartPosition.parse("earliest", OF_EDITS))
    (edit,) = edit_source_offsets(flow, to)
    assert (edit.before, edit.after, scenario.offsets()) == (20, 0, {0: 0, 1: 20})
    scenario.run(exactly_once=False)
    assert scenario.copied() == values(0, 20) * 2


def test_offsets_are_listed_while_the_source_is_down(scenario: Scenario) -> None:
    scenario.run()
    port = ReservedPort()
    try:
        nobody = ClusterSettings.plaintext(scenario.flow.name.source, port.address)
        listed = list_source_offsets(replace(scenario.flow, source=nobody))
    finally:
        port.release()
    assert [(one.partition, one.offset, one.log) for one in listed] == [(0, 20, None), (1, 20, None)]
    assert "is not reachable" in listed[0].note


def test_translation_follows_the_newer_copy(scenario: Scenario) -> None:
    scenario.run()
    scenario.control("set", "--topic", scenario.topic, "--partition", "0", "--offset", "10")
    write(scenario.source, scenario.topic, values(20, 25))
    scenario.run()
    state = ensure_state_topics(scenario.flow)
    with StateReader(scenario.flow.target) as reader:
        log = SegmentLog(reader, state.segments_topic, state.segments_partitions)
        log.read_news({})
        at = {position: log.translate(scenario.topic, 0, position) for position in (0, 5, 10, 15, 25)}
    # Ten of the first copy, then the second one, from 10 on; the commit markers take an offset each.
    expected = {0: 0, 5: 5, 10: 20, 15: 26, 25: 36}
    assert at == {position: Translated(offset, exact=True) for position, offset in expected.items()}
    rest = [one.value for one in read(scenario.target, scenario.copy)]
    assert rest == values(0, 20) + values(10, 25)


def test_a_run_that_goes_on_is_seen_and_left_alone(scenario: Scenario) -> None:
    prepare(scenario.flow)
    started, ended = threading.Event(), threading.Event()
    record: list[RunRecord] = []

    def slow(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        # The copy itself comes after the command's attempt: nothing but the presence tells of the run.
        started.set()
        assert ended.wait(30)
        return here(job, tasks)

    thread = threading.Thread(target=lambda: record.append(replicate(scenario.flow, RunOptions("busy"), slow)))
    thread.start()
    assert started.wait(30)
    code, _, error = scenario.control("reset", "--topic", ".*", "--to", "latest")
    ended.set()
    thread.join()
    assert code == 5
    assert f"the source offsets of flow {scenario.flow.name} were not changed: run 'busy' on " in error
    assert (record[0].state, record[0].records) == (RunState.DONE, 40)
    assert scenario.control("reset", "--topic", ".*", "--to", "latest")[0] == 0


def test_a_run_that_died_is_found_dead_and_fenced(scenario: Scenario) -> None:
    prepare(scenario.flow)
    ready = (
        "import sys, time; from pathlib import Path\n"
        "from srm_common.settings_files.configuration import load_configuration\n"
        "from srm_common.kafka.state.driver_presence import DriverPresence\n"
        "from srm_common.kafka.state.flow_state import FlowState\n"
        "from srm_common.kafka.state.state_topics import ensure_state_topics\n"
        f"flow = load_configuration(Path({str(scenario.file)!r})).flow({str(scenario.flow.name)!r})\n"
        "ensure_state_topics(flow)\n"
        "DriverPresence(FlowState(flow), 'dead').__enter__(); print('there', flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", ready], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        process.kill()
    code, answer, _ = scenario.control("reset", "--topic", scenario.topic, "--to", "latest")
    assert (code, answer["written"]) == (0, True)
    assert scenario.run().records == 0


def test_a_run_that_starts_meanwhile_wins(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario.run()
    genuine = write_transaction

    def overtaken(*arguments: Any) -> None:
        write(scenario.source, scenario.topic, values(20, 22))
        scenario.run()
        genuine(*arguments)

    monkeypatch.setattr(editing, "write_transaction", overtaken)
    code, _, error = scenario.control("set", "--topic", scenario.topic, "--partition", "0", "--offset", "3")
    assert (code, "a run took the flow meanwhile" in error) == (5, True)
    assert scenario.offsets() == {0: 22, 1: 20}
    monkeypatch.undo()


def test_a_run_that_was_about_to_begin_is_fenced_and_nothing_is_moved(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario.run()
    write(scenario.source, scenario.topic, values(20, 22))
    answers: list[tuple[int, Any, str]] = []

    def beside(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        # As if the command had looked just before the run said that it is there.
        monkeypatch.setattr(idle_flow, "signs_of_life", lambda *arguments, **more: [])
        monkeypatch.setattr(idle_flow, "drivers", lambda known: {})
        if not answers:
            answers.append(scenario.control("set", "--topic", scenario.topic, "--partition", "0", "--offset", "3"))
        return here(job, tasks)

    with pytest.raises(FlowOwnedElsewhere):
        replicate(scenario.flow, RunOptions("r"), beside)
    assert answers[0][0] == 5
    assert "started at the same moment" in answers[0][2]
    monkeypatch.undo()
    assert scenario.offsets() == {0: 20, 1: 20}


def test_an_open_transaction_of_the_flow_is_a_sign_of_life(scenario: Scenario) -> None:
    scenario.run()
    name = f"{scenario.flow.name.source}-mm2-MirrorSourceConnector-3"
    producer = Producer({"bootstrap.servers": scenario.target.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce(scenario.copy, b"open", partition=0)
    producer.flush(60)
    code, _, error = scenario.control("reset", "--topic", ".*", "--to", "latest")
    assert (code, f"a transaction of '{name}' is open" in error) == (5, True)
    producer.abort_transaction(120)


def test_mirror_maker_goes_on_where_the_command_says_and_is_seen_at_work(scenario: Scenario) -> None:
    scenario.run()
    for partition, offset in ((0, 15), (1, 0)):
        scenario.control("set", "--topic", scenario.topic, "--partition", str(partition), "--offset", str(offset))
    properties = {key: str(value) for key, value in properties_of(scenario.flow).items()}
    properties |= {
        "offset.flush.interval.ms": "500",
        "dedicated.mode.enable.internal.rest": "false",
        f"{scenario.flow.name.target}->{scenario.flow.name.source}.emit.heartbeats.enabled": "false",
        f"{scenario.flow.name.target}.exactly.once.source.support": "disabled",
    }
    with LocalMirrorMaker(properties) as mirror_maker:
        mirror_maker.wait_for_log("Kafka MirrorMaker started", 300)
        wait_for(lambda: len(scenario.copied(1)) == 40)
        code, _, error = scenario.control("reset", "--topic", ".*", "--to", "latest")
        mirror_maker.stop()
    assert (code, "stop MirrorMaker 2 first" in error) == (5, True)
    assert scenario.copied(0) == values(0, 20) + values(15, 20)
    assert scenario.copied(1) == values(0, 20) * 2
    assert scenario.run().records == 0


def wait_for(done: Callable[[], bool], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.3)


def test_another_owner_is_not_fenced_by_the_end_of_an_edit(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario.run()
    genuine = FlowClusters.control_log
    owners: list[Ownership] = []

    def after_commit(clusters: FlowClusters) -> ControlLog:
        owners.append(Ownership.take(scenario.flow, 2, 2))
        return genuine(clusters)

    monkeypatch.setattr(FlowClusters, "control_log", after_commit)
    assert scenario.control("set", "--topic", scenario.topic, "--partition", "0", "--offset", "3")[0] == 0
    owners[0].refence()
    owners[0].release()
