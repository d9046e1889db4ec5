"""Several files, and what a person may get wrong in them: each fault is one sentence with its place."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from srm_common.domain.cluster import Client
from srm_common.domain.flow import FlowName
from srm_common.errors import ConfigError, UnknownFlow
from srm_common.settings_files.configuration import load_configuration

BASE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n"


def fault_of(tmp_path: Path, data: str | bytes) -> ConfigError:
    """The fault of the only flow, or of the whole file."""
    path = tmp_path / "srm.properties"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    try:
        configuration = load_configuration(path)
    except ConfigError as error:
        return error
    (fault,) = configuration.faults.values()
    assert not configuration.flows
    return fault


def test_a_folder_and_a_list_of_files_are_one_configuration(tmp_path: Path) -> None:
    (tmp_path / "10-clusters.properties").write_text(BASE)
    (tmp_path / "20-flow.properties").write_text("A->B.enabled = true\nA->B.tasks.max = 5\nclusters = A, B\n")
    (tmp_path / "notes.txt").write_text("tasks.max = 9\n")
    listed = os.pathsep.join(str(tmp_path / name) for name in ("20-flow.properties", "10-clusters.properties"))
    for path in (tmp_path, Path(listed)):
        configuration = load_configuration(path)
        assert configuration.flow("A->B").tasks_max == 5
        entry = configuration.find("A->B", "tasks.max").entry
        assert entry is not None
        assert entry.place.endswith("20-flow.properties:2")


def test_two_files_that_contradict_each_other_name_both_places(tmp_path: Path) -> None:
    (tmp_path / "a.properties").write_text(BASE + "tasks.max = 1\ntasks.max = 2\n")
    (tmp_path / "b.properties").write_text("A->B.enabled = true\n\ntasks.max = 3\n")
    with pytest.raises(ConfigError, match=r"b\.properties:3: tasks\.max has one value in .*a\.properties:5 and"):
        load_configuration(tmp_path)
    (tmp_path / "b.properties").write_text("A->B.enabled = true\ntasks.max = 2\n")
    assert load_configuration(tmp_path).flow("A->B").tasks_max == 2


def test_a_file_of_a_list_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.properties").write_text(BASE)
    with pytest.raises(ConfigError, match=r"none\.properties: there is no such file"):
        load_configuration(Path(f"{tmp_path}/a.properties{os.pathsep}{tmp_path}/none.properties"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"empty: the folder has no \*\.properties files"):
        load_configuration(tmp_path / "empty")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("A->X.enabled = true", "4: A->X.enabled 'X' is not one of the clusters (A, B)"),
        ("A->B.source.cluster.bootstrap.servers = b:1",
         "3: flow A->B leads from a cluster to itself: 'A' and 'B' both have b:1"),
        ("B->B.topics = x", "4: flow B->B leads from a cluster to itself"),
        ("A->B.topics = a, b.*[", "4: A->B.topics has an expression that cannot be used: 'b.*[' is not a usable "
         "expression: a '[' is not closed at position 4"),
        ("A->B.tasks.max = ${env:SRM_NOT_SET}",
         "4: A->B.tasks.max: the environment has no variable SRM_NOT_SET, which ${env:SRM_NOT_SET} asks for"),
        ("A->B.fetch.bytes = 16MB", "4: A->B.fetch.bytes must be a whole number of bytes, but is '16MB'"),
        ("A->B.chunk.seconds = 5s", "4: A->B.chunk.seconds must be a number of seconds, but is '5s'"),
        ("A->B.tasks.max = \u0664", "4: A->B.tasks.max must be a whole number, but is '\u0664'"),
        ("A->B.enabled = true\ntransforms = mask", "5: transforms asks for transforms.mask.type, which is "
         "missing: the class of the transform"),
        ("A->B.transforms.sql = DROP TABLE records",
         "4: A->B.transforms.sql is not a query: it must be like SELECT value FROM records WHERE key IS NOT NULL"),
        ("A->B.transforms.sql.few.topics = few",
         "4: A->B.transforms.sql.few.topics names topics, but there is no statement transforms.sql.few"),
        ("A->B.topics = \\\n  one, \\\n  two(", "4: A->B.topics has an expression that cannot be used: 'two(' is not a "
         "usable expression: a '(' is not closed at position 5"),
    ],
)  # fmt: skip
def test_one_clear_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    assert str(fault_of(tmp_path, BASE + text)) == f"{tmp_path}/srm.properties:{sentence}"


def test_an_address_that_both_sides_share(tmp_path: Path) -> None:
    fault = fault_of(tmp_path, BASE.replace("b:1", "b:1, A:1") + "A->B.enabled = true\n")
    assert fault.line == 3
    assert "'A' and 'B' both have a:1" in str(fault)


def test_an_alias_that_holds_the_separator(tmp_path: Path) -> None:
    text = BASE.replace("A", "eu.central") + "eu.central->B.enabled = true\n"
    sentence = "clusters contains 'eu.central', and '.' also separates aliases from topic names; rename the alias"
    assert sentence in str(fault_of(tmp_path, text))
    for allowed in ("replication.policy.separator = _", "replication.policy.class = IdentityReplicationPolicy"):
        path = tmp_path / "allowed.properties"
        path.write_text(f"{text}{allowed}\n")
        assert load_configuration(path).flow("eu.central->B").enabled


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", ": the file is empty, so there are no clusters; start with 'clusters = a, b'"),
        (b"\r\n# only a comment\r\n", ": the file is empty, so there are no clusters"),
        ("clusters = Köln, B\n".encode(), ":1: 'Köln' is not a cluster alias: it becomes part of topic names"),
        (b"clusters = A, B C\n", "'.', '_' and '-', but not ' '"),
        (b"x = 1\nstreams.replication.manager.driver.target.cluster = C\nclusters = A, B\n",
         ":2: streams.replication.manager.driver.target.cluster names 'C', which is not one of the clusters (A, B)"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_used_at_all(tmp_path: Path, data: bytes, sentence: str) -> None:
    assert sentence in str(fault_of(tmp_path, data))


def test_windows_lines_continued_lines_and_other_letters(tmp_path: Path) -> None:
    path = tmp_path / "srm.properties"
    text = BASE + "A->B.enabled = true\nA->B.topics = caf\u00e9, \\\n   na\\u00efve, x\\\n-y\nA->B.tasks.max = 3\n"
    path.write_bytes(text.replace("\n", "\r\n").encode())
    flow = load_configuration(path).flow("A->B")
    assert flow.topics == ("caf\u00e9", "na\u00efve", "x-y")
    assert flow.tasks_max == 3


@pytest.mark.parametrize(
    ("lines", "enabled"),
    [
        ("A->B = true", True),
        ("A -> B = true", True),
        ("A->B: TRUE", True),
        ("A->B.enabled = true", True),
        ("A -> B.enabled = true", True),
        ("A->B.enabled = false\nA->B = true", False),
        ("A->B = false\nA->B.enabled = true", True),
        ("A->B = false", False),
    ],
)
def test_both_spellings_of_enabling(tmp_path: Path, lines: str, enabled: bool) -> None:
    path = tmp_path / "srm.properties"
    path.write_text(BASE + lines + "\n")
    assert load_configuration(path).flow("A->B").enabled is enabled


def test_a_wrong_value_of_the_short_spelling(tmp_path: Path) -> None:
    assert str(fault_of(tmp_path, BASE + "A->B = yes\n")).endswith(":4: A->B must be true or false, but is 'yes'")
    assert "'X' is not one of the clusters" in str(fault_of(tmp_path, BASE + "A->X = true\n"))


def test_flows_that_another_installation_serves(tmp_path: Path) -> None:
    path = tmp_path / "srm.properties"
    path.write_text(
        BASE + "A->B.enabled = true\nB->A.enabled = true\nB->A.tasks.max = wrong, and no matter here\n"
        "streams.replication.manager.driver.target.cluster = B\n"
    )
    configuration = load_configuration(path)
    assert [flow.name for flow in configuration.enabled_flows] == [FlowName("A", "B")]
    assert not configuration.faults
    with pytest.raises(UnknownFlow, match=r"flow B->A is left to another installation by .*srm\.properties:7"):
        configuration.flow("B->A")


def test_the_next_load_sees_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file, the files it refers to and the environment are read each time: no restart is needed."""
    path, secret = tmp_path / "srm.properties", tmp_path / "more.properties"
    monkeypatch.setenv("SRM_TEST_TASKS", "1")
    secret.write_text("lag = 5\n")
    path.write_text(BASE + f"A->B.tasks.max = ${{env:SRM_TEST_TASKS}}\nA->B.offset.lag.max = ${{file:{secret}:lag}}\n")
    flow = load_configuration(path).flow("A->B")
    assert (flow.tasks_max, flow.offset_lag_max, flow.topics) == (1, 5, (".*",))
    monkeypatch.setenv("SRM_TEST_TASKS", "2")
    secret.write_text("lag = 6\n")
    with path.open("a") as file:
        file.write("A->B.topics = x\n")
    flow = load_configuration(path).flow("A->B")
    assert (flow.tasks_max, flow.offset_lag_max, flow.topics) == (2, 6, ("x",))


def test_a_secret_that_is_no_text_is_a_fault_of_its_flow(tmp_path: Path) -> None:
    path = tmp_path / "srm.properties"
    (tmp_path / "latin").write_bytes(b"p\xe4ss")
    path.write_text(BASE + f"A->B.enabled = true\nA->B.topics = ${{dir:{tmp_path}:latin}}\n")
    (fault,) = load_configuration(path).faults.values()
    assert "latin} cannot be read: it is not text in UTF-8" in str(fault)
    path.write_text(BASE + "A->B.enabled = true\nA->B.topics = ${file:/a\\u0000b:key}\n")
    (fault,) = load_configuration(path).faults.values()
    assert "NUL character" in str(fault)


CONNECTION_LEVELS = [  # weakest first
    "reconnect.backoff.ms",
    "connectors.reconnect.backoff.ms",
    "producer.reconnect.backoff.ms",
    "connectors.producer.override.reconnect.backoff.ms",
    "B.reconnect.backoff.ms",
    "B.producer.reconnect.backoff.ms",
    "A->B.reconnect.backoff.ms",
    "A->B.target.cluster.reconnect.backoff.ms",
    "A->B.producer.reconnect.backoff.ms",
    "A->B.producer.override.reconnect.backoff.ms",
    "A->B.target.cluster.producer.reconnect.backoff.ms",
    "A->B.target.producer.reconnect.backoff.ms",
]


@pytest.mark.parametrize("strongest", range(len(CONNECTION_LEVELS)))
def test_precedence_of_connection_settings(tmp_path: Path, strongest: int) -> None:
    path = tmp_path / "srm.properties"
    lines = [f"{key} = {number}\n" for number, key in enumerate(CONNECTION_LEVELS[: strongest + 1])]
    path.write_text(BASE + "A->B.enabled = true\n" + "".join(reversed(lines)))
    flow = load_configuration(path).flow("A->B")
    assert flow.target.confluent["reconnect.backoff.ms"] == str(strongest)
    assert flow.source.confluent["reconnect.backoff.ms"] != "11"


@pytest.mark.parametrize("client", Client)
def test_each_kind_of_client_has_its_own_settings(tmp_path: Path, client: Client) -> None:
    path = tmp_path / "srm.properties"
    path.write_text(
        BASE + f"A->B.enabled = true\nmetadata.max.age.ms = 1000\nB.{client}.metadata.max.age.ms = 2000\n"
        f"A->B.source.{client}.metadata.max.age.ms = 3000\n"
    )
    flow = load_configuration(path).flow("A->B")
    for one in Client:
        source, target = flow.source.of_client(one), flow.target.of_client(one)
        assert target.confluent["metadata.max.age.ms"] == ("2000" if one is client else "1000")
        assert source.kafka_python["metadata_max_age_ms"] == (3000 if one is client else 1000)
        assert pickle.loads(pickle.dumps(flow.target)).of_client(one) == target
        elsewhere = target.at("proxy:1")
        assert elsewhere.confluent == {**target.confluent, "bootstrap.servers": "proxy:1"}
    assert flow.target.at("proxy:1").of_client(client).bootstrap_servers == "proxy:1"


def test_clients_are_named_after_the_flow_and_what_they_do_unless_the_file_names_them(tmp_path: Path) -> None:
    path = tmp_path / "srm.properties"
    path.write_text(BASE + "A->B.enabled = true\nB->A.enabled = true\nB->A.consumer.client.id = mine\n")
    configuration = load_configuration(path)
    flow, back = configuration.flow("A->B"), configuration.flow("B->A")
    assert flow.source.client_name("slot-0") == "srm.A.B.slot-0"
    assert flow.target.confluent["client.id"] == "srm.A.B"
    assert back.source.client_name("slot-0") == back.source.confluent["client.id"] == "mine"
    assert back.target.client_name("slot-0") == "srm.B.A.slot-0"


def test_time_limits_of_requests_by_side_and_client(tmp_path: Path) -> None:
    path = tmp_path / "srm.properties"
    path.write_text(
        BASE + "A->B.enabled = true\nrequest.timeout.ms = 1000\nA.request.timeout.ms = 2000\n"
        "A->B.source.admin.request.timeout.ms = 3000\n"
    )
    flow = load_configuration(path).flow("A->B")
    assert (flow.source.request_timeout_ms, flow.target.request_timeout_ms) == (2000, 1000)
    assert flow.source.of_client(Client.ADMIN).request_timeout_ms == 3000
    assert flow.source.of_client(Client.ADMIN).confluent["socket.timeout.ms"] == "3000"
