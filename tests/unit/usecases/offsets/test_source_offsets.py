"""Committed offsets listed and moved by the command, as a user types it, beside runs that are or are not going on."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.names import offsets_topic
from srm_common.domain.flow.start_position import OF_EDITS, StartPosition
from srm_common.domain.offsets.translation import Translated
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord, RunState
from srm_common.kafka.state import driver_presence
from srm_common.kafka.state.control_log import ControlLog
from srm_common.kafka.state.segment_log import SegmentLog
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_topics import ensure_state_topics
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.driver.state_transaction import write_transaction
from srm_common.testing import FakeCluster, ReservedPort
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.offsets import edit_source_offsets as editing
from srm_common.usecases.offsets.edit_source_offsets import Request, edit_source_offsets
from srm_common.usecases.offsets.source_offsets import list_source_offsets
from srm_common.usecases.runs.replicate import replicate
from tests.kafka.checkpoint_rounds import values
from tests.kafka.flows import prepare, read, write
from tests.kafka.source_offsets import Scenario
from tests.slot_worker import here


@pytest.fixture
def scenario(
    source_kafka: FakeCluster,
    target_kafka: FakeCluster,
    name: str,
    configuration_file: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Scenario:
    monkeypatch.setattr(driver_presence, "BEAT_SECONDS", 0.2)
    return Scenario(source_kafka, target_kafka, name, configuration_file, capsys)


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


@pytest.mark.usefixtures("impatient")
def test_offsets_are_listed_while_the_source_is_down(scenario: Scenario) -> None:
    scenario.run()
    port = ReservedPort()
    try:
        nobody = ClusterSettings.plaintext(scenario.flow.name.source, port.address)
        listed = list_source_offsets(replace(scenario.flow, source=nobody))
    finally:
        port.release()
    assert [(offset.partition, offset.offset, offset.log) for offset in listed] == [(0, 20, None), (1, 20, None)]
    assert "is not reachable" in listed[0].note


def test_translation_follows_the_newer_copy(scenario: Scenario) -> None:
    scenario.run()
    scenario.control("set", "--topic", scenario.topic, "--partition", "0", "--offset", "10")
    write(scenario.source, scenario.topic, values(20, 25))
    scenario.run()
    state = ensure_state_topics(scenario.flow)
    with StateReader(scenario.flow.target) as reader:
        log = SegmentLog(reader, state.segments_topic, state.segments_partitions)
        log.read_new({})
        at = {position: log.translate(scenario.topic, 0, position) for position in (0, 5, 10, 15, 25)}
    # Ten of the first copy, then the second one, from 10 on; the commit markers take an offset each.
    expected = {0: 0, 5: 5, 10: 20, 15: 26, 25: 36}
    assert at == {position: Translated(offset, exact=True) for position, offset in expected.items()}
    rest = [seen.value for seen in read(scenario.target, scenario.copy)]
    assert rest == values(0, 20) + values(10, 25)


def test_an_offsets_topic_that_takes_no_batches_of_that_size_is_named(scenario: Scenario) -> None:
    scenario.run()
    topic = offsets_topic(scenario.flow.name.source)
    entry = ConfigEntry("max.message.bytes", "100", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    scenario.target.admin().incremental_alter_configs([resource])[resource].result(60)
    code, _, error = scenario.control("set", "--topic", scenario.topic, "--partition", "0", "--offset", "3")
    assert (code, error.count("\n")) == (4, 1)
    assert f"max.message.bytes of state topic {topic} at cluster" in error
    assert scenario.offsets() == {0: 20, 1: 20}


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


@pytest.mark.usefixtures("impatient")
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
    assert (code, "a run took over the flow in the meantime" in error) == (5, True)
    assert scenario.offsets() == {0: 22, 1: 20}
    monkeypatch.undo()


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
