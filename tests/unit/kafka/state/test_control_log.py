from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow.control_record import FILTERS, SOURCE_OFFSETS
from srm_common.domain.flow.names import CONTROL_TOPIC
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.kafka.state.control_log import ControlLog
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.testing import FakeCluster
from srm_common.wire.state.plain_records import NewRecord
from tests.kafka.flows import flow_between


@pytest.fixture
def flow(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> FlowSettings:
    return flow_between(source_kafka, target_kafka, name)


@pytest.fixture
def other(flow: FlowSettings) -> FlowSettings:
    return replace(flow, name=FlowName(flow.name.source, "elsewhere"))


def test_every_change_is_kept_in_order_with_its_author(flow: FlowSettings, other: FlowSettings) -> None:
    with ControlLog(flow) as log, ControlLog(other) as others:
        assert log.records() == []
        first = log.append(FILTERS, before={}, after={"topics": ["ä.*"]}, who="ann@host", origin="srm-control")
        others.append(FILTERS, before={}, after={}, who="somebody")
        offsets = log.append(SOURCE_OFFSETS, before={"t-0": 5}, after={"t-0": 1}, note="asked for by --earliest")
        assert log.records() == [first, offsets]
        assert log.records(FILTERS) == [first]
        assert (first.who, first.after, first.origin) == ("ann@host", {"topics": ["ä.*"]}, "srm-control")
        assert (offsets.who, offsets.note) == (None, "asked for by --earliest")
        assert log.unreadable == []
    settings = ClusterAdmin(flow.target).topic_settings([CONTROL_TOPIC])[CONTROL_TOPIC]
    assert settings["cleanup.policy"].value == "compact"


def test_of_two_edits_of_the_same_state_one_stands(flow: FlowSettings) -> None:
    with ControlLog(flow) as log:
        base = log.append(FILTERS, before=None, after=1)
        first = log.append(FILTERS, before=1, after=2, based_on=base)
        log.append(FILTERS, before=1, after=3, based_on=base)
        assert log.standing(FILTERS) == [base, first]


def test_a_foreign_record_hides_no_other(flow: FlowSettings, name: str) -> None:
    with ControlLog(flow) as log:
        kept = log.append(FILTERS, before=None, after=1)
        broken = [NewRecord(CONTROL_TOPIC, 0, f"{name} {n}".encode(), value) for n, value in enumerate(
            (b"\xff", b"[]", b'{"version": 9}', b'{"version": 1, "key": "k"}', None)
        )]  # fmt: skip
        writer = StateWriter(flow.target)
        writer.write("break the log", broken)
        try:
            assert log.records() == [kept]
            assert len(log.unreadable) == 4
            assert CONTROL_TOPIC in log.unreadable[0]
        finally:
            writer.write("mend it", [NewRecord(CONTROL_TOPIC, 0, record.key, None) for record in broken])
