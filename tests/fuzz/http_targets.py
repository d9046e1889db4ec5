"""Answers over HTTP: of token endpoints, schema registries, Airflow and other services of ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic import BaseModel

from srm_common.airflow_rest import AirflowRest
from srm_common.domain.cluster import ClusterSettings, RegistrySettings
from srm_common.domain.flow.service_advertisement import Advertisement
from srm_common.domain.schemas.schemas import SchemaVersion
from srm_common.errors import AirflowError, PeerError, RegistryError
from srm_common.http_answers import json_of
from srm_common.kafka.client.logins.client_credentials import token_in
from srm_common.rest.peers import client
from srm_common.rest.schemas import FlowList, HealthAnswer, RunList, Series
from srm_common.schema_registry.registry import SchemaRegistry
from tests.fuzz.target import Target

_REGISTRY = ClusterSettings("a", "h:1", {}, {}, schema_registry=RegistrySettings(("http://r:1",)))
_SCHEMA = SchemaVersion("orders-value", 3, 7, '"string"', "AVRO", (), ())


class _Registry(SchemaRegistry):
    """Answers every request with the same."""

    def __init__(self, status: int, data: bytes) -> None:
        super().__init__(_REGISTRY, timeout_seconds=1)
        self._answer = status, data

    def _exchange(self, url: str, method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, bytes]:
        return self._answer


_ASKED: Sequence[Callable[[SchemaRegistry], object]] = (
    lambda registry: registry.view(),
    lambda registry: registry.level("a"),
    lambda registry: registry.mode("a"),
    lambda registry: registry.lookup(_SCHEMA),
    lambda registry: registry.schema_version("a", 3),
    lambda registry: registry.add("a", "AVRO", "{}"),
    lambda registry: registry.register(_SCHEMA),
)


def _registry(status: int) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        with _Registry(status, data) as registry:
            for asks in _ASKED:
                with suppress(RegistryError):
                    asks(registry)

    return read


class _Airflow(AirflowRest):
    """Answers every request with the same."""

    def __init__(self, answer: Any) -> None:
        super().__init__("http://airflow:1", "user", "password")
        self._answer = answer

    def _request(self, token: str | None, method: str, path: str, body: Any) -> Any:
        return self._answer


def _airflow(data: bytes) -> None:
    answer = json_of(data)
    # Lists are asked for until all has come that an answer says there is.
    if isinstance(answer, dict) and isinstance(answer.get("total_entries"), int | float):
        answer["total_entries"] = min(answer["total_entries"], 3)
    for asks in (
        lambda: _Airflow(answer).variable("x"),
        lambda: _Airflow(answer).is_paused("d"),
        lambda: _Airflow(answer).active_runs("d"),
        lambda: _Airflow(answer).run("d", "r"),
        lambda: _Airflow(answer).task_instances("d", "r"),
        lambda: _Airflow(answer).task_results("d", "r", "k"),
        lambda: _Airflow(answer).dags("t"),
    ):
        with suppress(AirflowError):
            asks()


_PEER = Advertisement.of("west", "http://west.example:1", ["b"], 1000)


def _peer(data: bytes) -> None:
    """As each kind of answer, of which a service may send another one."""
    models: Sequence[type[BaseModel]] = (FlowList, HealthAnswer, RunList, Series)
    for model in models:
        with suppress(PeerError):
            client.read(_PEER, data, model)
    assert isinstance(client._refused("west", 503, data), PeerError)


def _json(*documents: object) -> list[bytes]:
    return [json.dumps(document).encode() for document in documents]


_VERSION = {"subject": "orders-value", "version": 3, "id": 7, "schema": "{}", "schemaType": "AVRO", "references": []}
TARGETS = (
    Target(
        "token-answer",
        _json({"access_token": "abc", "token_type": "bearer", "expires_in": 300}),
        token_in,
        (ValueError,),
    ),
    Target(
        "registry-answer",
        _json([_VERSION], _VERSION, [1, 2], {"compatibilityLevel": "FULL"}, {"mode": "IMPORT"}, {"id": 7}),
        _registry(200),
        (),
    ),
    Target("registry-refusal", _json({"error_code": 40401, "message": "no such subject"}), _registry(404), ()),
    Target(
        "airflow-answer",
        _json(
            {"key": "x", "value": "text"},
            {"dag_id": "d", "is_paused": False},
            {"dag_runs": [{"dag_run_id": "r", "state": "running"}], "total_entries": 1},
            {"xcom_entries": [{"task_id": "t", "value": {}}], "access_token": "t", "total_entries": 1},
        ),
        _airflow,
        (ValueError,),
    ),
    Target(
        "peer-answer",
        _json({"flows": [], "total": 0, "errors": []}, {"errors": [{"code": "busy", "message": "later"}]}),
        _peer,
        (),
    ),
)
