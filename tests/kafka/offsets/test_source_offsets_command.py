"""Committed offsets moved by the command, and whoever else writes to the flow: MirrorMaker 2, a run, a transaction."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from srm_common.domain.flow.control_record import SOURCE_OFFSETS
from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.domain.runs.run_options import RunOptions
from srm_common.errors import FlowOwnedElsewhere
from srm_common.kafka.state import driver_presence
from srm_common.kafka.state.control_log import ControlLog
from srm_common.testing import LocalKafka, LocalMirrorMaker
from srm_common.usecases.flows import idle_flow
from srm_common.usecases.runs.replicate import replicate
from tests.kafka.checkpoint_rounds import values
from tests.kafka.flows import properties_of, write
from tests.kafka.source_offsets import Scenario
from tests.slot_worker import here

pytestmark = pytest.mark.kafka


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
    return Scenario(source_kafka, target_kafka, name, configuration_file, capsys)


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
