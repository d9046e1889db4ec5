"""The bytes of keys and values in the compacted topics: other versions, and programs of users, read them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.control_record import FILTERS
from srm_common.domain.flow.names import CONTROL_TOPIC, META_TOPIC, SERVICES_TOPIC, flow_state_topic
from srm_common.domain.flow.service_advertisement import Advertisement
from srm_common.domain.topics.topic_records import Ancestor, ClusterBinding, TopicRecord, TopicState
from srm_common.kafka.state.control_log import ControlLog
from srm_common.kafka.state.flow_state import FlowState
from srm_common.kafka.state.service_log import ServiceLog, read_services
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_topics import ensure_state_topics
from srm_common.kafka.state.topic_registry import TopicRegistry
from srm_common.testing import FakeCluster
from tests.kafka.flows import flow_between


@pytest.fixture
def flow(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> FlowSettings:
    return flow_between(source_kafka, target_kafka, name)


@pytest.fixture
def reader(flow: FlowSettings) -> Iterator[StateReader]:
    with StateReader(flow.target) as state_reader:
        yield state_reader


def values(reader: StateReader, topic: str, key: bytes) -> list[bytes | None]:
    """All values of a key, in the order of the log."""
    return [record.value for record in reader.read(topic) if record.key == key and record.partition == 0]


def test_what_a_flow_remembers(flow: FlowSettings, reader: StateReader) -> None:
    ensure_state_topics(flow)
    with FlowState(flow) as state:
        state.write("run", {"n": 1, "text": "é", "rows": [[None, 0.5]]})
        state.write("run", None)
    first, last = values(reader, flow_state_topic(flow.name.source), b"run")
    expected = '{"version":1,"written_ms":[0-9]{13},"value":{"n":1,"text":"é","rows":\\[\\[null,0.5\\]\\]}}'
    assert re.fullmatch(expected.encode(), first or b"")
    assert last is None


def test_topics_and_clusters(flow: FlowSettings, reader: StateReader, name: str) -> None:
    lineage = (Ancestor("id-a", "ä", "t"),)
    record = TopicRecord(name, "t", "a.t", "u", "d", "id-a", "id-b", "identity", TopicState.REPLICATING, 1, lineage)
    with TopicRegistry(flow.target) as registry:
        registry.write([record], [ClusterBinding(name, "id-a", 7)], replication_factor=1)
        registry.write(forget=[record.key], forget_bindings=[name])
    assert values(reader, META_TOPIC, f'["topic","{name}","t"]'.encode()) == [
        (
            f'{{"version":1,"flow":"{name}","upstream_topic":"t","downstream_topic":"a.t","upstream_topic_id":"u",'
            f'"downstream_topic_id":"d","upstream_cluster_id":"id-a","downstream_cluster_id":"id-b",'
            f'"policy":"identity","state":"replicating","since_ms":1,"lineage":[["id-a","ä","t"]],'
            f'"previous_upstream_ids":[],"reason":"","former_downstream_topics":[]}}'
        ).encode(),
        None,
    ]
    binding = f'{{"version":1,"alias":"{name}","cluster_id":"id-a","since_ms":7}}'.encode()
    assert values(reader, META_TOPIC, f'["cluster","{name}"]'.encode()) == [binding, None]


def test_changes_by_people(flow: FlowSettings, reader: StateReader) -> None:
    with ControlLog(flow) as log:
        base = log.append(FILTERS, before=None, after={"topics": ["ä.*"]}, who="ann@host", origin="srm-control")
        record = log.append(FILTERS, before=1, after=2, note="why", based_on=base)
    assert re.fullmatch(f"{re.escape(str(flow.name))} filters {base.when_ms} [0-9a-f]{{12}}", base.key)
    about = f'"kind":"filters","flow":"{flow.name}"'
    assert values(reader, CONTROL_TOPIC, base.key.encode()) == [
        (
            f'{{"version":1,"key":"{base.key}",{about},"when_ms":{base.when_ms},"who":"ann@host","before":null,'
            f'"after":{{"topics":["ä.*"]}},"origin":"srm-control","note":"","based_on":null,"when":"{base.when}"}}'
        ).encode()
    ]
    assert values(reader, CONTROL_TOPIC, record.key.encode()) == [
        (
            f'{{"version":1,"key":"{record.key}",{about},"when_ms":{record.when_ms},"who":null,"before":1,'
            f'"after":2,"origin":"","note":"why","based_on":"{base.key}","when":"{record.when}"}}'
        ).encode()
    ]


def test_services(flow: FlowSettings, reader: StateReader, name: str) -> None:
    service = Advertisement.of("wést", f"https://{name}.example/srm", ["b", "a"], 1000)
    log = ServiceLog(flow.target, 1)
    log.withdraw(service)
    log.renew(service)
    advertisements, _ = read_services(flow.target, timeout_seconds=60)
    assert [advertisement.url for advertisement in advertisements if advertisement.host == service.host] == [
        service.url
    ]
    log.withdraw(service)
    assert values(reader, SERVICES_TOPIC, f"https://{name}.example/srm".encode()) == [
        (
            f'{{"version":1,"name":"wést","protocol":"https","host":"{name}.example","port":443,'
            f'"root_path":"/srm","targets":["a","b"],"every_ms":1000}}'
        ).encode(),
        None,
    ]
