from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from srm_common.domain.flow import FlowName
from srm_common.errors import ConfigError
from srm_common.rest.faults import handle_faults
from srm_common.rest.ports import Access, Right
from srm_common.rest.serving.logins import (
    MOST_WRONG,
    BasicAccess,
    Login,
    Logins,
    OpenAccess,
    Person,
    WatchedLogins,
    WrongLogins,
    environment_login,
    hashed,
    matches,
    read_logins,
)
from tests.examples import examples


@settings(max_examples=examples(5), deadline=None)
@given(password=st.text(min_size=1))
def test_a_hash_is_of_its_password_only(password: str) -> None:
    secret = hashed(password)
    assert password not in secret or len(password) < 5
    assert matches(password, secret)
    assert not matches(password + "x", secret)
    assert hashed(password) != secret


def test_a_hash_made_elsewhere_is_understood() -> None:
    # RFC 7914, chapter 12: N 16384, r 8, p 1; the first 32 of 64 bytes.
    secret = "{scrypt}16384:U29kaXVtQ2hsb3JpZGU=:cCO9yzr9c0hGHAbNgf046/2o+7qQT44+qbVD9lRdofI="
    assert matches("pleaseletmein", secret)
    assert not matches("pleaseletmeout", secret)


def test_who_is_known_and_who_is_not() -> None:
    logins = Logins([Login("ann", "op", hashed("sesame")), Login("bob", "viewer", "plain: with a colon")])
    ann = logins.find("ann", "sesame")
    assert ann is not None
    assert (ann.name, ann.role) == ("ann", "op")
    # A second time from memory; a wrong password is still wrong after that.
    assert logins.find("ann", "sesame") is ann
    assert logins.find("ann", "Sesame") is None
    assert logins.find("bob", "plain: with a colon") is not None
    assert logins.find("carl", "sesame") is None
    assert logins.find("", "") is None
    # The boundary between name and password counts.
    assert logins.find("an", "nsesame") is None


@pytest.mark.parametrize("name", ["ann", "bob", "carl"])
def test_a_wrong_name_takes_as_long_as_a_wrong_password(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    logins = Logins([Login("ann", "op", hashed("sesame")), Login("bob", "viewer", "plain")])
    computed = []
    scrypt = hashlib.scrypt

    def counted(*arguments: Any, **settings: Any) -> bytes:
        computed.append(settings["n"])
        return scrypt(*arguments, **settings)

    monkeypatch.setattr(hashlib, "scrypt", counted)
    assert logins.find(name, "wrong") is None
    assert len(computed) == 1


def test_a_password_file(tmp_path: Path) -> None:
    file = tmp_path / "logins"
    secret = hashed("x")
    file.write_text(f"# the team\n\nann:op:{secret}\nbob:viewer:a:b:c\n")
    assert read_logins(file) == [Login("ann", "op", secret), Login("bob", "viewer", "a:b:c")]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("ann:hush", 1, "NAME:ROLE:PASSWORD"),
        ("ann:op:hush\nbob:root:hush", 2, "viewer, user, op"),
        (":op:hush", 1, "the name is missing"),
        ("ann:op:", 1, "the password is missing"),
        ("ann:op:hush\nann:op:hush", 2, "another line has the same name"),
        ("ann:op:{scrypt}hush", 1, "--hash-password"),
        ("ann:op:{scrypt}1073741824:aGk=:aGk=", 1, "--hash-password"),
        ("# nobody\n", None, "no users"),
    ],
)
def test_a_wrong_line_is_told_without_what_is_in_it(tmp_path: Path, text: str, line: int | None, said: str) -> None:
    file = tmp_path / "logins"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said) as refused:
        read_logins(file)
    assert refused.value.line == line
    assert "hush" not in str(refused.value)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "logins"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_logins(file)


def test_the_login_of_the_environment() -> None:
    assert environment_login({}) is None
    assert environment_login({"SRM_SERVE_USER": "ann", "SRM_SERVE_PASSWORD": "x"}) == Login("ann", "op", "x")
    with pytest.raises(ConfigError, match="SRM_SERVE_PASSWORD is not set"):
        environment_login({"SRM_SERVE_USER": "ann"})
    with pytest.raises(ConfigError, match="SRM_SERVE_USER is not set"):
        environment_login({"SRM_SERVE_PASSWORD": "hush"})
    with pytest.raises(ConfigError, match="colon"):
        environment_login({"SRM_SERVE_USER": "a:b", "SRM_SERVE_PASSWORD": "x"})
    with pytest.raises(ConfigError, match="SRM_SERVE_PASSWORD: the hash cannot be read") as wrong:
        environment_login({"SRM_SERVE_USER": "ann", "SRM_SERVE_PASSWORD": "{scrypt}hush"})
    assert "hush" not in str(wrong.value)


def test_secrets_stay_out_of_what_is_printed() -> None:
    assert "hush" not in repr(Login("ann", "op", "hush"))


def test_who_is_added_may_come_in_and_who_is_gone_may_not(tmp_path: Path) -> None:
    file = tmp_path / "logins"
    file.write_text("ann:op:sesame\n")
    watched = WatchedLogins(file, [Login("root", "op", "key")])
    assert watched.find("ann", "sesame") == Login("ann", "op", "sesame")
    assert watched.find("bob", "plain") is None
    file.write_text("bob:viewer:plain\n# ann has left\n")
    assert watched.find("bob", "plain") == Login("bob", "viewer", "plain")
    # Although she was right a moment ago.
    assert watched.find("ann", "sesame") is None
    assert watched.find("root", "key") is not None


def test_a_file_put_in_its_place_counts_too(tmp_path: Path) -> None:
    file = tmp_path / "logins"
    file.write_text("ann:op:old\n")
    watched = WatchedLogins(file)
    other = tmp_path / "new"
    other.write_text("ann:user:new\n")
    other.replace(file)
    assert watched.find("ann", "old") is None
    assert watched.find("ann", "new") == Login("ann", "user", "new")


def test_a_file_that_breaks_locks_nobody_out_and_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "logins"
    file.write_text("ann:op:sesame\n")
    watched = WatchedLogins(file)
    file.write_text("ann:op:sesame\nbob:root:hush\n")
    for _ in range(3):
        assert watched.find("ann", "sesame") is not None
        assert watched.find("bob", "hush") is None
    (told,) = caplog.messages
    assert f"{file}:2: the role is one of viewer, user, op; the previous users stay in effect" in told
    assert "hush" not in told
    file.unlink()
    assert watched.find("ann", "sesame") is not None
    assert "the password file cannot be read" in caplog.messages[-1]
    file.write_text("bob:user:hush\n")
    assert watched.find("bob", "hush") is not None
    assert watched.find("ann", "sesame") is None


def test_it_does_not_begin_with_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        WatchedLogins(tmp_path / "none")


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


def test_who_guesses_has_to_wait_and_locks_nobody_out() -> None:
    now = [100.0]
    guarded = client(
        BasicAccess(Logins([Login("ann", "op", "right"), Login("bob", "op", "x")]), WrongLogins(lambda: now[0]))
    )
    assert guarded.get("/", auth=("ann", "right")).status_code == 200
    for number in range(MOST_WRONG):
        assert guarded.get("/", auth=("ann", f"guess-{number}")).status_code == 401
        now[0] += 1
    refused = guarded.get("/", auth=("bob", "x"))
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == str(60 - MOST_WRONG)
    assert refused.json()["errors"][0]["code"] == "too_many_logins"
    assert guarded.get("/", auth=("ann", "right")).status_code == 200
    now[0] += 60 - MOST_WRONG
    assert guarded.get("/", auth=("bob", "x")).status_code == 200
    assert guarded.get("/", auth=("bob", "wrong")).status_code == 401


def test_wrong_logins_of_many_addresses_take_little_memory() -> None:
    wrong = WrongLogins(lambda: 5.0)
    for number in range(10_100):
        wrong.add(f"address-{number}")
    assert len(wrong._of) == 10_000
    for _ in range(MOST_WRONG):
        wrong.add("one")
    assert wrong.wait_seconds("one") == 60.0
    assert wrong.wait_seconds("another") == 0.0


@pytest.mark.parametrize("host", ["localhost:8090", "127.0.0.1:8090", "[::1]:8090"])
def test_on_this_machine_everybody_may_do_everything(host: str) -> None:
    answer = client(OpenAccess(this_machine=True), f"http://{host}").get("/")
    assert answer.json() == ["anybody", "read", "trigger", "edit"]


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example"])
def test_a_name_of_the_internet_that_leads_to_this_machine_gets_nothing(host: str) -> None:
    answer = client(OpenAccess(this_machine=True), f"http://{host}:8090").get("/")
    assert answer.status_code == 403
    assert client(OpenAccess(this_machine=False), f"http://{host}").get("/").status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "localhost/?.evil.example",
        "localhost:1@evil.example",
        "evil.example@localhost",
        "evil.example:",
        "localhost:99x",
        "",
    ],
)
def test_a_host_that_cannot_be_read_is_not_this_machine(host: str) -> None:
    open_access = client(OpenAccess(this_machine=True), "http://localhost")
    assert open_access.get("/", headers={"host": host}).status_code == 403
    assert open_access.get("/", headers={"host": "LocalHost"}).status_code == 200


def test_rights_hold_for_every_flow() -> None:
    flow = FlowName("a", "b")
    assert Person("bob", frozenset({Right.READ})).readable([flow]) == {flow}
    assert Person("nobody", frozenset()).readable([flow]) == set()
