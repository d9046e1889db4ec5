from __future__ import annotations

import base64

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from srm_common.domain.flow import FlowName
from srm_common.rest.faults import handle_faults
from srm_common.rest.ports import Access, Right
from srm_common.rest.serving.basic_access import BasicAccess, OpenAccess, Person
from srm_common.rest.serving.logins import Login, Logins


def client(access: Access, url: str = "http://testserver") -> TestClient:
    app = FastAPI()
    handle_faults(app)

    @app.get("/")
    def who(request: Request) -> list[str]:
        caller = access.caller(request)
        return [caller.name, *(right.value for right in Right if caller.may(right))]

    return TestClient(app, base_url=url)


@pytest.fixture
def basic() -> TestClient:
    return client(BasicAccess(Logins([Login("ann", "op", "sésame:1"), Login("bob", "viewer", "x")])))


def test_a_right_login_has_the_rights_of_its_role(basic: TestClient) -> None:
    credentials = base64.b64encode("ann:sésame:1".encode()).decode()
    assert basic.get("/", headers={"Authorization": f"basic {credentials}"}).json() == [
        "ann",
        "read",
        "trigger",
        "edit",
    ]
    assert basic.get("/", auth=("bob", "x")).json() == ["bob", "read"]


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(None, id="none"),
        pytest.param("Bearer abc", id="another kind"),
        pytest.param("Basic", id="empty"),
        pytest.param("Basic !!!", id="no base64"),
        pytest.param("Basic /w==", id="no text"),
        pytest.param("Basic " + base64.b64encode(b"ann").decode(), id="no password"),
        pytest.param("Basic " + base64.b64encode(b"ann:wrong").decode(), id="a wrong one"),
        pytest.param("Basic " + base64.b64encode(b":").decode(), id="nobody"),
    ],
)
def test_without_a_right_login_a_browser_is_told_to_ask_for_one(basic: TestClient, header: str | None) -> None:
    answer = basic.get("/", headers={} if header is None else {"Authorization": header})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic realm=")
    assert [one["code"] for one in answer.json()["errors"]] == ["login_needed"]


@pytest.mark.parametrize("host", ["localhost:8090", "127.0.0.1:8090", "[::1]:8090"])
def test_on_this_machine_everybody_may_do_everything(host: str) -> None:
    answer = client(OpenAccess(this_machine=True), f"http://{host}").get("/")
    assert answer.json() == ["anybody", "read", "trigger", "edit"]


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example"])
def test_a_name_of_the_internet_that_leads_to_this_machine_gets_nothing(host: str) -> None:
    answer = client(OpenAccess(this_machine=True), f"http://{host}:8090").get("/")
    assert answer.status_code == 403
    assert client(OpenAccess(this_machine=False), f"http://{host}").get("/").status_code == 200


def test_rights_hold_for_every_flow() -> None:
    flow = FlowName("a", "b")
    assert Person("bob", frozenset({Right.READ})).readable([flow]) == {flow}
    assert Person("nobody", frozenset()).readable([flow]) == set()
