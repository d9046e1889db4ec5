"""What is wrong with a configuration: the sentence, its line, and which flows it stops."""

from __future__ import annotations

import pytest

from srm_common.domain.flow import FlowName
from srm_common.errors import ConfigError, UnknownFlow
from tests.unit.settings_files.conftest import BASE, Load


def test_a_bad_flow_stops_itself_alone(load: Load) -> None:
    configuration = load(BASE + "A->B.enabled=true\nA->B.tasks.max=four\nA->B.topics = a, b(\nB->A.enabled=true\n")
    assert [str(flow.name) for flow in configuration.enabled_flows] == ["B->A"]
    fault = configuration.faults[FlowName("A", "B")]
    assert "srm.properties:" in str(fault)
    assert "tasks.max must be a whole number, but is 'four'" in str(fault)
    assert "'b(' is not a usable expression" in str(fault)
    with pytest.raises(ConfigError, match="four"):
        configuration.flow("A->B")


def test_a_cluster_that_cannot_be_used_stops_its_flows_alone(load: Load) -> None:
    configuration = load(
        BASE.replace("A, B", "A, B, C, D") + "C.bootstrap.servers = c:1\nC.security.protocol = SSL\n"
        "C.ssl.keystore.location = /x.bks\nC.ssl.keystore.type = BKS\n"
        "A->B.enabled=true\nA->C.enabled=true\nA->D.enabled=true\n"
    )
    assert [str(flow.name) for flow in configuration.enabled_flows] == ["A->B"]
    assert "a BKS keystore can be read only by Java" in str(configuration.faults[FlowName("A", "C")])
    assert configuration.faults[FlowName("A", "C")].line == 7
    assert "D.bootstrap.servers" in str(configuration.faults[FlowName("A", "D")])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("A->A.enabled = true", "from a cluster to itself"),
        ("A->X.enabled = true", r"'X' is not one of the clusters \(A, B\)"),
        ("A->B.topic.filter.class = com.example.Mine", "Java classes are not loaded"),
        ("A->B.replication.policy.class = com.example.Mine", "cannot be imported"),
        ("A->B.replication.policy.separator =", "must not be empty"),
        ("A->B.tasks.max = ${env:SRM_NOT_THERE}", "no variable SRM_NOT_THERE"),
        ("A->B.stalled.after.seconds = soon", "must be a number of seconds, but is 'soon'"),
        ("A->B.lag.objective.records = -1", "must be at least 0 records"),
        ("A->B.producer.compression.type = brotli", "must be one of producer, none, gzip, snappy, lz4, zstd"),
        ("A->B.producer.compression.gzip.level = 10", "must be at most 9, but is 10"),
        ("A->B.producer.compression.lz4.level = 0", "must be at least 1, but is 0"),
        ("A->B.alarm.notifiers = mail", r"names 'mail', which has no alarm\.notifier\.mail\.class"),
    ],
)
def test_faults_of_one_flow(load: Load, line: str, reason: str) -> None:
    configuration = load(BASE + line + "\n")
    (fault,) = configuration.faults.values()
    with pytest.raises(ConfigError, match=reason):
        raise fault
    assert fault.line == 4


def test_unknown_flows(load: Load) -> None:
    configuration = load(BASE)
    with pytest.raises(UnknownFlow, match=r"'X' is not one of the clusters \(A, B\)"):
        configuration.flow("A->X")
    with pytest.raises(UnknownFlow, match=r"add 'A->B.enabled = true'"):
        configuration.flow("A->B")
    with pytest.raises(ConfigError, match="is not a flow"):
        configuration.flow("A")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "so there are no clusters"),
        ("# nothing\n", "so there are no clusters"),
        ("x=1\nclusters = \n", r"srm\.properties:2: the file has no clusters"),
        ("clusters = A, A\n", r":1: cluster alias 'A' is listed twice"),
        ("clusters = A,,B\n", "'' is not a cluster alias"),
        ("clusters = A, B\nx = \\u00g0\n", r"srm\.properties:2: "),
        ("clusters = A\nconfig.providers = vault\n", r":2: config.providers: provider 'vault' must be one of"),
    ],
)
def test_faults_of_the_whole_file(load: Load, text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        load(text)


DOTTED = """
clusters = a, a.b, b.c, c
replication.policy.separator = _
a.bootstrap.servers = a:1
a.b.bootstrap.servers = ab:1
b.c.bootstrap.servers = bc:1
c.bootstrap.servers = c:1
"""


def test_two_flows_do_not_share_a_dag_id(load: Load) -> None:
    configuration = load(f"{DOTTED}a.b->c.enabled = true\na->b.c.topics = x\na->b.c.enabled = true\n")
    assert list(configuration.flows) == [FlowName("a.b", "c")]
    with pytest.raises(ConfigError) as raised:
        configuration.flow("a->b.c")
    assert raised.value.line == 10
    assert raised.value.reason == (
        "a->b.c.enabled is about flow a->b.c, which would have the same DAG id as a.b->c, srm.a.b.c; rename an alias"
    )
    assert configuration.without_dag == {FlowName("a", "b.c")}


def test_a_dag_id_is_the_enabled_flows_whatever_is_wrong_with_its_keys(load: Load) -> None:
    # A typo must not make the other flow run.
    configuration = load(f"{DOTTED}a.b->c.topics = x\na->b.c.enabled = true\na->b.c.tasks.max = many\n")
    assert not configuration.flows
    assert configuration.without_dag == {FlowName("a.b", "c")}
    assert "tasks.max" in str(configuration.faults[FlowName("a", "b.c")])


def test_a_flow_without_a_dag_id_says_what_else_is_wrong(load: Load) -> None:
    configuration = load(f"{DOTTED}a.b->c.enabled = true\na->b.c.enabled = true\na->b.c.tasks.max = many\n")
    own, shared = configuration.faults[FlowName("a", "b.c")].parts
    assert "tasks.max" in str(own)
    assert "srm.a.b.c; rename an alias" in str(shared)


def test_a_dag_id_may_be_that_of_a_flow_of_another_installation(load: Load) -> None:
    here = "streams.replication.manager.driver.target.cluster = c\n"
    configuration = load(f"{DOTTED}{here}a->b.c.enabled = true\na.b->c.enabled = true\n")
    assert not configuration.faults
