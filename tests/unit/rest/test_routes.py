"""The whole table of routes: who is let in, and how refusals look."""

from __future__ import annotations

import re

import pytest
from fastapi.routing import APIRoute

from srm_common.rest.app import ROUTERS
from tests.unit.rest.conftest import Stage
from tests.unit.rest.rights import BAD_BODY, NEEDED, RIGHTS_OF, TAKEN

#: What anybody may load: shells without data, their files, and the API's description.
PUBLIC = {"/", "/ui", "/page/{version}/{name:path}", "/docs", "/docs/{name}", "/openapi.json"}
PUBLIC |= {"/help", "/help/{name}", "/help/monitoring/{name}"}
SAMPLES = {
    "source": "east",
    "target": "west",
    "topic": "orders.created",
    "downstream_topic": "east.orders.created",
    "metric": "byte-rate",
    "cluster": "east",
    "kafkaClusterId": "abc",
    "kind": "failover",
    "run_id": "r",
}
ROUTES = [
    (method, route.path)
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute) and route.path not in PUBLIC
    for method in sorted(route.methods)
]


def address(path: str) -> str:
    return re.sub(r"\{(\w+)(:path)?\}", lambda found: SAMPLES[found[1]], path)


def test_the_walk_is_over_the_whole_app(same_stage: Stage) -> None:
    described = {
        (method.upper(), path)
        for path, methods in same_stage.client().get("/openapi.json").json()["paths"].items()
        for method in methods
    }
    assert described <= set(ROUTES)
    assert len(described) > 20


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_nothing_is_told_to_nobody_in_particular(same_stage: Stage, method: str, path: str) -> None:
    answer = same_stage.client(None).request(method, address(path), json={} if method in ("POST", "PUT") else None)
    assert answer.status_code == 401, answer.text
    (fault,) = answer.json()["errors"]
    assert fault["code"] == "login_needed"


@pytest.mark.parametrize(("method", "path"), [one for one in ROUTES if one[1] != "/api/v2/whoami"])
def test_who_has_no_rights_gets_no_data(same_stage: Stage, method: str, path: str) -> None:
    answer = same_stage.client("nobody").request(method, address(path), json={} if method in ("POST", "PUT") else None)
    assert answer.status_code in (403, 422), answer.text
    assert answer.json()["errors"]


#: Without what is for viewers, too.
WRITES = [one for one, right in NEEDED.items() if right != "read"]


@pytest.mark.parametrize(("method", "path"), WRITES)
def test_a_viewer_writes_nothing(same_stage: Stage, method: str, path: str) -> None:
    body = {"lists": {"topics": ["a"]}}
    answer = same_stage.client("viewer").request(method, address(path), json=body)
    assert answer.status_code == 403, answer.text
    (fault,) = answer.json()["errors"]
    assert fault["code"] == "forbidden"
    assert "viewer may not" in fault["message"]


def test_the_right_of_each_change_is_known() -> None:
    assert set(NEEDED) == {one for one in ROUTES if one[0] != "GET"}


@pytest.mark.parametrize("role", ["viewer", "user", "op"])
@pytest.mark.parametrize(("method", "path"), NEEDED)
def test_each_role_may_send_what_it_has_the_right_to(same_stage: Stage, method: str, path: str, role: str) -> None:
    answer = same_stage.client(role).request(method, address(path), json=BAD_BODY)
    allowed = NEEDED[method, path] in RIGHTS_OF[role]
    assert answer.status_code in (TAKEN if allowed else (403,)), answer.text
    assert answer.status_code == 200 or all(fault["message"] for fault in answer.json()["errors"])


@pytest.mark.parametrize("path", ["/docs", "/docs/docs.js", "/docs/swagger-ui.css", "/openapi.json", "/"])
def test_shells_are_for_everybody_and_load_nothing_from_elsewhere(same_stage: Stage, path: str) -> None:
    answer = same_stage.client(None).get(path)
    assert answer.status_code == 200
    assert answer.headers["x-content-type-options"] == "nosniff"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "http" not in policy
    assert "frame-ancestors 'self'" in policy


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/v2/nothing", 404, "not_found"),
        ("GET", "/docs/..%2fapp.py", 404, "not_found"),
        ("DELETE", "/api/v2/flows", 405, "method_not_allowed"),
        ("GET", "/api/v2/flows?limit=1001", 422, "invalid_parameter"),
        ("GET", "/api/v2/flows?minutes=two", 422, "invalid_parameter"),
        ("GET", "/api/v2/flows?from_ms=2&to_ms=1", 422, "invalid_range"),
        ("GET", "/api/v2/flows?status=well", 422, "invalid_parameter"),
        ("GET", "/api/v2/flows/east/moon", 404, "unknown_flow"),
        ("GET", "/api/v2/flows/east/moon/topics", 404, "unknown_flow"),
        ("GET", "/api/v2/flows/east/west/metrics/speed", 422, "invalid_parameter"),
        ("GET", "/api/v2/flows/east/west/topics/none", 404, "unknown_topic"),
        ("GET", "/api/v2/topic-metrics/east/west/none/byte-rate", 404, "unknown_topic"),
        ("GET", "/api/v2/topic-metrics/west/none/byte-rate", 404, "unknown_topic"),
        ("GET", f"/api/v2/flows?search={'x' * 250}", 422, "invalid_parameter"),
    ],
)
def test_every_refusal_has_the_one_shape(same_stage: Stage, method: str, path: str, status: int, code: str) -> None:
    answer = same_stage.client().request(method, path, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"errors"}
    assert [fault["code"] for fault in answer.json()["errors"]] == [code]
    assert all(fault["message"] for fault in answer.json()["errors"])


def test_the_description_s_page_finds_all_that_it_loads(same_stage: Stage) -> None:
    client = same_stage.client(None)
    named = re.findall(r'(?:href|src)="([^"]+)"', client.get("/docs").text)
    assert len(named) >= 5
    for path in named:
        answer = client.get(f"/{path}")
        assert answer.status_code == 200, path
        assert answer.content


def test_a_body_that_is_no_json_is_one_sentence(same_stage: Stage) -> None:
    headers = {"content-type": "application/json"}
    answer = same_stage.client("op").post("/api/v2/flows/east/west/offsets", content=b'{"groups": [', headers=headers)
    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert fault["code"] == "invalid_parameter"
    assert re.fullmatch(r"the body is not JSON: .+, at character \d+", fault["message"])
    assert "field" not in fault
