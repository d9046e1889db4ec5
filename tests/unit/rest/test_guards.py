from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from srm_common.rest.faults import handle_faults
from srm_common.rest.guards import BodyLimit, SameOrigin


@pytest.fixture
def limited() -> TestClient:
    app = FastAPI()
    handle_faults(app)
    app.add_middleware(BodyLimit, most_bytes=100)

    @app.post("/")
    def length(body: dict[str, Any]) -> int:
        return len(body["text"])

    return TestClient(app)


def pieces(body: bytes) -> Iterator[bytes]:
    """Sent in parts, so that no header says how long it is."""
    for at in range(0, len(body), 40):
        yield body[at : at + 40]


@pytest.mark.parametrize("in_parts", [False, True])
def test_what_is_too_long_is_refused(limited: TestClient, in_parts: bool) -> None:
    for count, status in ((80, 200), (200, 413)):
        body = b'{"text": "%s"}' % (b"x" * count)
        answer = limited.post(
            "/", content=pieces(body) if in_parts else body, headers={"content-type": "application/json"}
        )
        assert answer.status_code == status, answer.text
    assert [one["code"] for one in answer.json()["errors"]] == ["too_large"]


def test_a_body_that_does_not_end_is_given_up() -> None:
    """It would hold its connection, and what was read of it, for as long as the other side likes."""
    app = FastAPI()
    handle_faults(app)
    app.add_middleware(BodyLimit, most_seconds=0.05)

    @app.post("/")
    def take(body: dict[str, Any]) -> None:
        raise AssertionError(f"{body} is not whole")

    begun = [{"type": "http.request", "body": b'{"a":', "more_body": True}]
    sent: list[Any] = []

    async def receive() -> Any:
        return begun.pop() if begun else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/", "query_string": b"", "http_version": "1.1", "scheme": "http",
        "headers": [(b"content-type", b"application/json")],
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 408
    assert b"too_slow" in sent[1]["body"]
    assert b"took longer than 0.05 s to arrive" in sent[1]["body"]


JSON = {"content-type": "application/json"}


@pytest.fixture
def client() -> TestClient:
    app = FastAPI()
    app.add_middleware(SameOrigin)

    @app.get("/")
    def read() -> str:
        return "read"

    @app.post("/")
    def write() -> str:
        return "written"

    return TestClient(app, base_url="http://airflow.example:8080")


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="a program"),
        pytest.param({"content-type": "Application/JSON; charset=utf-8"}, id="spelled in another way"),
        pytest.param({"sec-fetch-site": "same-origin", "origin": "http://airflow.example:8080"}, id="our page"),
        pytest.param({"sec-fetch-site": "none"}, id="no page"),
        pytest.param({"origin": "http://airflow.example:8080"}, id="our page in an older browser"),
        pytest.param({"origin": "https://airflow.example:8080"}, id="our page behind a proxy that ends TLS"),
        pytest.param(
            {"origin": "https://public.example", "x-forwarded-host": "public.example"}, id="behind another name"
        ),
    ],
)
def test_our_own_writes_pass(client: TestClient, headers: dict[str, str]) -> None:
    assert client.post("/", headers=JSON | headers, content="{}").json() == "written"


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"sec-fetch-site": "cross-site"}, id="another site"),
        pytest.param({"sec-fetch-site": "same-site"}, id="another host of the same domain"),
        pytest.param({"sec-fetch-site": "cross-site", "origin": "http://airflow.example:8080"}, id="a forged origin"),
        pytest.param({"origin": "http://evil.example"}, id="another site in an older browser"),
        pytest.param({"origin": "http://airflow.example:8081"}, id="another port"),
        pytest.param({"origin": "http://airflow.example:8080.evil.example"}, id="a name that begins like ours"),
        pytest.param({"origin": "null"}, id="a page that hides its origin"),
        pytest.param({"origin": "http://[::1"}, id="an origin that is no address"),
    ],
)
def test_writes_of_other_sites_are_refused(client: TestClient, headers: dict[str, str]) -> None:
    answer = client.post("/", headers=JSON | headers, content="{}")
    assert answer.status_code == 403
    assert [one["code"] for one in answer.json()["errors"]] == ["cross_site"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
def test_what_a_form_can_send_is_refused(client: TestClient, kind: str | None) -> None:
    answer = client.post("/", headers={} if kind is None else {"content-type": kind})
    assert answer.status_code == 415
    assert [one["code"] for one in answer.json()["errors"]] == ["json_expected"]


def test_reading_is_open_to_links_of_other_sites(client: TestClient) -> None:
    assert client.get("/", headers={"sec-fetch-site": "cross-site"}).json() == "read"
