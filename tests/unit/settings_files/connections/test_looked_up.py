"""Which Airflow connections are looked up, and how often."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName
from srm_common.errors import ConfigError
from srm_common.settings_files.configuration import Configuration, load_configuration
from srm_common.settings_files.connections.airflow_connections import AirflowConnection

_ALIASES = ("a", "b", "c", "d")


class Airflow:
    """Counts what it is asked; does not have ``kafka_c``."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __call__(self, conn_id: str) -> AirflowConnection | None:
        self.asked[conn_id] += 1
        return None if conn_id == "kafka_c" else AirflowConnection(conn_id, host=conn_id, password="hush")


@pytest.fixture
def airflow() -> Airflow:
    return Airflow()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A mesh of four clusters."""
    lines = ["clusters = a, b, c, d", *(f"{alias}.connection = kafka_{alias}" for alias in _ALIASES)]
    lines += [f"{one}->{other}.enabled = true" for one in _ALIASES for other in _ALIASES if one != other]
    path = tmp_path / "srm.properties"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def configuration(file: Path, airflow: Airflow) -> Configuration:
    return load_configuration(file, airflow)


def test_reading_a_file_looks_nothing_up(configuration: Configuration, airflow: Airflow) -> None:
    assert len(configuration.names) == len(configuration.kept) == 12
    assert not airflow.asked


def test_a_flow_needs_those_of_its_two_clusters(configuration: Configuration, airflow: Airflow) -> None:
    flow = configuration.flow("a->b")
    assert configuration.flows[FlowName("b", "a")].target.bootstrap_servers == flow.source.bootstrap_servers
    assert configuration.secret_variables(flow.name).keys() == {"AIRFLOW_CONN_KAFKA_A", "AIRFLOW_CONN_KAFKA_B"}
    assert flow.cluster("b") == flow.target
    assert airflow.asked == {"kafka_a": 1, "kafka_b": 1}


def test_another_cluster_of_the_graph_is_looked_up_by_who_needs_it(
    configuration: Configuration, airflow: Airflow
) -> None:
    flow = configuration.flow("a->b")
    assert len(flow.graph) == 12
    found = flow.cluster("d")
    assert isinstance(found, ClusterSettings)
    assert found.bootstrap_servers == "kafka_d:9092"
    with pytest.raises(ConfigError, match=r"^.*:4: c\.connection names the Airflow connection 'kafka_c', which"):
        flow.cluster("c")
    assert flow.cluster("e") is None
    assert airflow.asked == {"kafka_a": 1, "kafka_b": 1, "kafka_c": 1, "kafka_d": 1}


def test_a_flow_with_settings_of_its_own_that_are_wrong_does_not_hide_a_cluster(tmp_path: Path) -> None:
    path = tmp_path / "srm.properties"
    path.write_text(
        "clusters = a, b, c\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\nc.bootstrap.servers = c:1\n"
        "a->b.enabled = true\nc->a.enabled = true\nc->b.enabled = true\n"
        "c->b.source.consumer.security.protocol = NONSENSE\n"
    )
    configuration = load_configuration(path)
    assert [str(name) for name in configuration.faults] == ["c->b"]
    found = configuration.flow("a->b").cluster("c")
    assert found is not None
    assert found.bootstrap_servers == "c:1"


def test_each_is_looked_up_once_also_in_vain(configuration: Configuration, airflow: Airflow) -> None:
    assert {str(name) for name in configuration.faults} == {
        str(name) for name in configuration.names if "c" in (name.source, name.target)
    }
    assert list(configuration.cluster_faults) == ["c"]
    assert list(configuration.clusters) == ["a", "b", "d"]
    with pytest.raises(ConfigError, match="kafka_c"):
        configuration.flow("a->c")
    assert airflow.asked == {f"kafka_{alias}": 1 for alias in _ALIASES}


def test_a_changed_connection_is_seen_by_who_reads_the_file_again(file: Path) -> None:
    hosts = {"kafka_a": "first", "kafka_b": "b"}

    def look_up(conn_id: str) -> AirflowConnection:
        return AirflowConnection(conn_id, host=hosts[conn_id])

    assert load_configuration(file, look_up).flow("a->b").source.bootstrap_servers == "first:9092"
    hosts["kafka_a"] = "second"
    assert load_configuration(file, look_up).flow("a->b").source.bootstrap_servers == "second:9092"
