"""The routes about transforms: what they show to whom, and what the server does not run for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from srm_common.domain.flow import FlowSettings
from srm_common.rest.app import AppContext
from srm_common.rest.serving.watched_files import WatchedConfiguration
from srm_common.rest.v2 import transforms
from srm_common.store.metrics_store import MetricsStore
from srm_common.testing import FakeCluster
from srm_common.usecases.transforms.newest_records import ReadLimits
from tests.kafka.flows import flow_between, properties_of
from tests.unit.rest.conftest import app_of
from tests.unit.rest.people import HEADER, HeaderAccess

MASK = {
    "transforms": "mask",
    "transforms.mask.type": "MaskField$Value",
    "transforms.mask.fields": "card",
    "value.format": "json",
}
FILTER = {
    "transforms": "gone",
    "transforms.gone.type": "Filter",
    "transforms.gone.predicate": "tombstone",
    "predicates": "tombstone",
    "predicates.tombstone.type": "RecordIsTombstone",
}
Ask = Callable[..., Any]


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, all records are compared."""
    monkeypatch.setattr(transforms, "_LIMITS", ReadLimits(seconds=300.0))


@pytest.fixture
def flow(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> FlowSettings:
    """Its topic has a record to be masked, one that is no JSON, and a tombstone."""
    source_kafka.create_topic(name)
    source_kafka.write(name, [(b"k", b'{"card":"4711"}'), (b"k", b"secret"), (b"k", None)], 0)
    return flow_between(source_kafka, target_kafka, name)


@pytest.fixture
def ask(flow: FlowSettings, configuration_file: Callable[..., Path], tmp_path: Path) -> Iterator[Ask]:
    """``ask(method, path, body, code=200, who="op", **keys of the flow)``; without an Airflow."""
    store = MetricsStore(f"sqlite:///{tmp_path}/metrics.db")

    def call(
        method: str,
        path: str,
        body: Any = None,
        *,
        code: int = 200,
        who: str = "op",
        keys: dict[str, str] | None = None,
    ) -> Any:
        file = configuration_file(
            properties_of(flow) | {f"{flow.name}.{key}": text for key, text in (keys or {}).items()}
        )
        context = AppContext(HeaderAccess(), lambda: store, None, WatchedConfiguration(lambda: file))
        client = TestClient(app_of(context), headers={HEADER: who})
        prefix = f"/api/v2/flows/{flow.name.source}/{flow.name.target}/transforms"
        answer = client.request(method, prefix + path, json=body)
        assert answer.status_code == code, answer.text
        return answer.json() if code == 200 else answer.json()["errors"][0]

    yield call
    store.close()


def test_the_keys_are_shown_as_written(ask: Ask, flow: FlowSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SRM_TEST_ORIGIN", "hidden")
    inserted = {
        "transforms": "origin",
        "transforms.origin.type": "InsertHeader",
        "transforms.origin.header": "origin",
        "transforms.origin.value.literal": "${env:SRM_TEST_ORIGIN}",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter.basic.auth.user.info": "ann:password",
    }
    found = ask("GET", "", keys=inserted, who="viewer")
    assert found["settings"] == {key: text for key, text in inserted.items() if "user.info" not in key}
    assert (found["editable"], found["values_shown"], found["elsewhere"]) == (False, False, None)
    assert found["command"].startswith(f"srm-control transform --flow '{flow.name}'")
    assert ask("GET", "")["editable"]


def test_what_an_edit_would_alter(ask: Ask) -> None:
    found = ask("POST", "/preview", {"settings": MASK}, keys=FILTER | {"preview.values.enabled": "true"})
    assert found["counts"] == {"unchanged": 2, "changed": 0, "dropped": 1, "failed": 0}
    assert found["other_counts"] == {"unchanged": 0, "changed": 1, "dropped": 0, "failed": 2}
    assert found["differences"] == {"written differently": 1, "newly failed": 2}
    assert (found["compared"], found["ended_early"], found["values_shown"]) == (3, None, True)
    masked, failed, tombstone = found["records"]
    assert (masked["before"]["value"], masked["before"]["value_format"]) == ('{"card":"4711"}', "json")
    assert masked["other"]["record"]["value"] == '{"card":""}'
    assert failed["other"]["reason"].startswith("transforms.mask: ")
    assert (tombstone["after"]["result"], tombstone["other"]["result"]) == ("dropped", "failed")


def test_values_and_what_quotes_them_stay_hidden_unless_the_file_shows_them(ask: Ask) -> None:
    body = {"settings": MASK | {"transforms.mask.type": "Cast$Value", "transforms.mask.spec": "card:int8"}}
    found = ask("POST", "/preview", body)
    assert (found["values_shown"], found["other_counts"]["failed"]) == (False, 2)
    for one in found["records"]:
        assert (one["before"], one["after"]["record"], one["other"]["record"]) == (None, None, None)
        assert one["other"]["reason"] in (None, "transforms.mask")
    assert "4711" not in str(found)
    assert "secret" not in str(found)


def test_examples_are_some_of_every_kind_and_those_that_differ_first(
    ask: Ask, source_kafka: FakeCluster, name: str
) -> None:
    source_kafka.write(name, [(b"k", None)] * 3, 0)
    found = ask("POST", "/preview", {"settings": FILTER, "examples": 2})
    assert (found["compared"], len(found["records"])) == (6, 2)
    assert {one["difference"] for one in found["records"]} == {"newly dropped"}
    # Without a comparison, where something happens.
    shown = ask("POST", "/preview", {"examples": 3}, keys=FILTER)["records"]
    assert [(one["offset"], one["after"]["result"]) for one in shown] == [
        (2, "dropped"),
        (3, "dropped"),
        (4, "dropped"),
    ]
    mixed = ask("POST", "/preview", {"settings": MASK, "examples": 2})["records"]
    assert [(one["offset"], one["difference"]) for one in mixed] == [(0, "written differently"), (1, "newly failed")]


def test_no_secret_is_read_by_an_edit(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SRM_TEST_ORIGIN", "hidden")
    edit = {
        "transforms": "origin",
        "transforms.origin.type": "InsertHeader",
        "transforms.origin.header": "origin",
        "transforms.origin.value.literal": "${env:SRM_TEST_ORIGIN}",
    }
    refused = ask("POST", "/preview", {"settings": edit}, code=422)
    assert (refused["code"], refused["field"]) == ("invalid_transforms", "settings")
    assert refused["message"].startswith("transforms.origin.value.literal has a reference (${...}) that the file does")
    # As the file has it, it is no more than what runs do.
    assert ask("POST", "/preview", {"settings": edit}, keys=edit)["differences"] == {}


SPARK_SQL = {"transforms.sql": "SELECT upper(key) AS key FROM records"}


@pytest.mark.parametrize(
    ("settings", "code", "said"),
    [
        ({"transforms.python": "os:getcwd"}, 409, "transforms.python is your own code, which this server does not run"),
        (SPARK_SQL, 409, "transforms.sql is evaluated by Spark, which this server"),
        ({"topics": ".*"}, 422, "topics is not a key of transforms; known keys are transforms, predicates, "),
        ({"transforms": "a"}, 422, "transforms.a.type is missing: the class of the transform"),
        ({"provenance.headers": "x"}, 422, "provenance.headers must be one or more of none, flow, "),
        (MASK | {"value.format": "avro"}, 422, "transforms needs "),
    ],
)
def test_what_is_not_tried_here(ask: Ask, flow: FlowSettings, settings: dict[str, str], code: int, said: str) -> None:
    refused = ask("POST", "/preview", {"settings": settings}, code=code)
    assert refused["message"].startswith(said)
    if code == 409:
        assert refused["code"] == "preview_refused"
        assert f"srm-control transform --flow '{flow.name}'" in refused["message"]


def test_a_flow_with_what_is_not_tried_here_says_so(ask: Ask) -> None:
    assert ask("GET", "", keys=SPARK_SQL)["elsewhere"].startswith("transforms.sql is evaluated by Spark")
    assert ask("POST", "/preview", {}, keys=SPARK_SQL, code=409)["code"] == "preview_refused"


def test_a_statement_that_needs_no_spark_is_tried_here(ask: Ask) -> None:
    edit = {"transforms.sql": "SELECT key FROM records WHERE value IS NOT NULL"}
    assert ask("POST", "/preview", {"settings": edit})["differences"] == {"newly dropped": 1}


def test_a_limit_is_told(ask: Ask, source_kafka: FakeCluster, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transforms, "_LIMITS", ReadLimits(300.0, 1 << 20))
    for _ in range(120):
        source_kafka.write(name, [(b"k", b"x" * 20_000)], 0)
    found = ask("POST", "/preview", {"sample": 100})
    assert 0 < found["compared"] < 100
    said = f"compared {found['compared']} of the last 100: the limit of 1 MiB of records was reached"
    assert found["ended_early"] == said


def test_topics_that_are_not_copied(ask: Ask) -> None:
    refused = ask("POST", "/preview", {"topics": ["absent"]}, code=409)
    assert (refused["code"], refused["message"].split(" by ")[0]) == ("preview_refused", "absent is not copied")
