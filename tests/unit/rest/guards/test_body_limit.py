from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from srm_common.rest.faults import handle_faults
from srm_common.rest.guards.body_limit import BodyLimit


@pytest.fixture
def client() -> TestClient:
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
def test_what_is_too_long_is_refused(client: TestClient, in_parts: bool) -> None:
    for count, status in ((80, 200), (200, 413)):
        body = b'{"text": "%s"}' % (b"x" * count)
        answer = client.post(
            "/", content=pieces(body) if in_parts else body, headers={"content-type": "application/json"}
        )
        assert answer.status_code == status, answer.text
    assert [one["code"] for one in answer.json()["errors"]] == ["too_large"]
