"""Every route through the service's own web server and logins: who may do what, and what no input does to headers."""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import uvicorn

from srm_common.domain.flow import FlowName
from srm_common.rest.guards import CROSS_SITE, MOST_BYTES
from srm_common.rest.live import TAG
from srm_common.rest.serving.logins import MOST_WRONG
from srm_common.rest.serving.service import Listener, access_of, server_config
from srm_common.testing import FakeCluster
from srm_common.testing.airflow_client import wait_until
from tests.unit.rest.conftest import Stage, app_of, configuration_text, opened
from tests.unit.rest.rights import BAD_BODY, NEEDED, RIGHTS_OF, TAKEN
from tests.unit.rest.test_routes import PUBLIC, ROUTES, SAMPLES, address

ROLES = ("viewer", "user", "op")
#: As the parts of addresses have them: the end of a line, and a header behind it.
_INJECTED = "x%0d%0aset-cookie:%20evil=1%0d%0a%0d%0a%3Chtml%3E"


READS = [path for method, path in ROUTES if method == "GET"]


class Service:
    def __init__(self, port: int) -> None:
        self._port = port

    def answer(
        self,
        method: str,
        path: str,
        role: str | None,
        body: object = None,
        **headers: str,
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Status, headers and body. A body of bytes is sent as it is, without its length."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if role is not None:
            sent["authorization"] = "Basic " + base64.b64encode(f"{role}:{role}".encode()).decode()
        if body is not None:
            sent["content-type"] = "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
        try:
            if isinstance(body, bytes):
                connection.request(method, path, iter([body]), sent, encode_chunked=True)
            else:
                connection.request(method, path, None if body is None else json.dumps(body), sent)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()


@contextmanager
def serving(stage: Stage, folder: Path, *, users: bool = True) -> Iterator[Service]:
    logins = folder / "logins" if users else None
    if logins is not None:
        logins.write_text("".join(f"{role}:{role}:{role}\n" for role in ROLES))
    app = app_of(replace(stage.context, access=access_of(Listener(), logins, {})))
    server = uvicorn.Server(server_config(app))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        wait_until(lambda: server.started, 180, "the service listens")
        yield Service(listener.getsockname()[1])
        server.should_exit = True
        thread.join(180)


@pytest.fixture(scope="module")
def service(history: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("served")
    with opened(history, folder) as stage, serving(stage, folder) as service:
        yield service


@pytest.fixture(scope="module")
def described(service: Service) -> dict[str, Any]:
    """The operations of each path."""
    paths: dict[str, Any] = json.loads(service.answer("GET", "/openapi.json", None)[2])["paths"]
    return paths


def _asks_clusters(described: dict[str, Any], path: str) -> bool:
    """Which would take each request ten seconds: no cluster is there."""
    return TAG in described.get(path, {}).get("get", {}).get("tags", ())


def test_nothing_is_told_without_a_login(service: Service) -> None:
    for method, path in ROUTES:
        assert service.answer(method, address(path), None, {} if method != "GET" else None)[0] == 401, path


@pytest.mark.parametrize("login", [None, "nobody"])
def test_no_body_is_read_before_the_login(service: Service, login: str | None) -> None:
    """The body is announced and does not come: whoever waited for it would answer 408, a minute later."""
    for method, path in NEEDED:
        status, _, _ = service.answer(
            method, address(path), login, content_type="application/json", content_length="9000000"
        )
        assert status == 401, path


@pytest.mark.parametrize("role", ROLES)
def test_each_role_may_send_what_it_has_the_right_to(service: Service, role: str) -> None:
    for (method, path), right in NEEDED.items():
        status, _, body = service.answer(method, address(path), role, BAD_BODY)
        assert status in (TAKEN if right in RIGHTS_OF[role] else (403,)), (method, path, body)


def test_every_role_reads_the_same(service: Service, described: dict[str, Any]) -> None:
    """Of what the store, the file and the scheduler know; clusters are not there."""
    reads = [path for path in READS if not _asks_clusters(described, path)]
    assert len(reads) > 15
    for path in reads:
        answers = {service.answer("GET", address(path), role)[0] for role in ROLES}
        assert len(answers) == 1, (path, answers)
        assert answers <= {200, 404, 409, 422}, (path, answers)


@pytest.fixture(scope="module")
def live_service(
    history: Path, tmp_path_factory: pytest.TempPathFactory, source_kafka: FakeCluster, target_kafka: FakeCluster
) -> Iterator[Service]:
    """Whose clusters are there, those of the flow that addresses name."""
    folder = tmp_path_factory.mktemp("live")
    with opened(history, folder) as stage, serving(stage, folder) as service:
        clusters = {"source": source_kafka, "target": target_kafka}
        addresses = [f"{SAMPLES[side]}.bootstrap.servers = {one.bootstrap_servers}" for side, one in clusters.items()]
        flow = FlowName(SAMPLES["source"], SAMPLES["target"])
        stage.file.write_text("\n".join([configuration_text([flow]), *addresses]))
        yield service


def test_every_role_reads_the_same_of_clusters(live_service: Service, described: dict[str, Any]) -> None:
    reads = [path for path in READS if _asks_clusters(described, path)]
    assert len(reads) > 2
    taken = set()
    for path in reads:
        assert live_service.answer("GET", address(path), None)[0] == 401, path
        answers = {role: live_service.answer("GET", address(path), role) for role in ROLES}
        assert {status for status, _, _ in answers.values()} <= {200, 404, 409, 422}, (path, answers)
        assert len({status for status, _, _ in answers.values()}) == 1, (path, answers)
        taken.add(answers["viewer"][0])
    assert 200 in taken


@pytest.fixture(scope="module")
def changes(described: dict[str, Any]) -> list[tuple[str, str]]:
    """Whatever the service's description has that is no GET: a new route is walked without a word here."""
    found = [
        (method.upper(), path)
        for path, operations in described.items()
        for method in operations
        if method.upper() not in ("GET", "HEAD", "OPTIONS")
    ]
    assert sorted(found) == sorted((method, path) for method, path in ROUTES if method != "GET")
    return found


def _code(body: bytes) -> str:
    (fault,) = json.loads(body)["errors"]
    return str(fault["code"])


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1.evil.example"},
        {"origin": "https://evil.example", "sec_fetch_site": "cross-site"},
    ],
    ids=str,
)
def test_no_change_comes_from_another_site(
    service: Service, changes: list[tuple[str, str]], headers: dict[str, str]
) -> None:
    """By whoever has all rights."""
    for method, path in changes:
        status, _, body = service.answer(method, address(path), "op", {}, **headers)
        assert (status, _code(body)) == (403, CROSS_SITE), (method, path)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
def test_no_change_is_one_that_a_form_can_send(
    service: Service, changes: list[tuple[str, str]], kind: str | None
) -> None:
    for method, path in changes:
        sent = {} if kind is None else {"content_type": kind}
        status, _, body = service.answer(method, address(path), "op", **sent)
        assert (status, _code(body)) == (415, "json_expected"), (method, path)


def test_no_change_is_too_long(service: Service, changes: list[tuple[str, str]]) -> None:
    """Announced, which is refused before it is sent; and sent without a word about its length."""
    for method, path in changes:
        announced = {"content_type": "application/json", "content_length": str(MOST_BYTES + 1)}
        status, _, body = service.answer(method, address(path), "op", **announced)
        assert (status, _code(body)) == (413, "too_large"), (method, path)
    method, path = changes[0]
    status, _, body = service.answer(method, address(path), "op", b" " * (MOST_BYTES + 1))
    assert (status, _code(body)) == (413, "too_large"), (method, path)


def test_without_users_every_change_is_for_this_machine_s_name_alone(
    history: Path, tmp_path: Path, changes: list[tuple[str, str]]
) -> None:
    """A name of another site that leads to this machine (DNS rebinding) makes its page the same site for a browser."""
    with opened(history, tmp_path) as stage, serving(stage, tmp_path, users=False) as service:
        for method, path in changes:
            for host in ("evil.example", "localhost.evil.example", "127.0.0.1@evil.example", "10.0.0.1", ""):
                sent = {"host": host, "origin": f"http://{host}", "sec_fetch_site": "same-origin"}
                status, _, body = service.answer(method, address(path), None, {}, **sent)
                assert (status, _code(body)) == (403, "forbidden"), (method, path, host)
            assert service.answer(method, address(path), None, BAD_BODY)[0] in TAKEN, (method, path)


def _filled(path: str, **parts: str) -> str:
    samples = {**SAMPLES, "name": "a", "version": "x", **parts}
    return re.sub(r"\{(\w+)(:path)?\}", lambda found: samples[found[1]], path)


def test_no_part_of_a_request_becomes_a_header(service: Service, described: dict[str, Any]) -> None:
    """Each part of each path, and each parameter; also of what anybody may load."""
    asked = []
    for path in {*READS, *PUBLIC}:
        for part in re.findall(r"\{(\w+)(?::path)?\}", path):
            asked.append(_filled(path, **{part: _INJECTED}))
        if _asks_clusters(described, path):
            continue
        for parameter in described.get(path, {}).get("get", {}).get("parameters", ()):
            if parameter["in"] == "query":
                asked.append(f"{_filled(path)}?{parameter['name']}={_INJECTED}")
        # Routes without the slash behind them are where such requests are redirected to.
        asked.append(f"{_filled(path).rstrip('/')}/?{_INJECTED}")
    asked += [f"/{_INJECTED}", f"/help/{_INJECTED}/", f"//{_INJECTED}/", "//evil.example/%2e%2e"]
    assert len(asked) > 60, asked
    for path in asked:
        status, headers, body = service.answer("GET", path, "op")
        assert status < 500, (path, status, body)
        assert not {"set-cookie"} & {name.lower() for name, _ in headers}, (path, headers)
        for name, value in headers:
            assert not re.search(r"[\r\n\0]", value), (path, name, value)
            assert name.lower() != "location" or not re.match(r"(https?:)?//(?!127\.0\.0\.1)", value), (path, value)


@pytest.mark.parametrize("name", ["accept_encoding", "accept", "origin", "x_forwarded_host", "range", "if_none_match"])
def test_no_header_of_a_request_comes_back(service: Service, name: str) -> None:
    for path in ("/api/v2/flows", "/metrics", "/", "/nothing"):
        status, headers, _ = service.answer("GET", path, "op", **{name: 'gzip, "evil";q=1, bytes=0-1, evil.example'})
        assert status < 500
        assert not any("evil" in value for _, value in headers), (path, headers)


def test_wrong_logins_count_by_the_client_that_a_proxy_of_this_machine_names(service: Service) -> None:
    """Not by the proxy's address, which is everyone's; by networks of 64 bits, as a client of IPv6 has as many."""

    def guesses(addresses: list[str]) -> list[int]:
        return [service.answer("GET", "/api/v2/whoami", "nobody", x_forwarded_for=one)[0] for one in addresses]

    refused = [401] * MOST_WRONG + [429]
    assert guesses(["203.0.113.9"] * (MOST_WRONG + 1)) == refused
    assert guesses([f"2001:db8:0:1::{number:x}" for number in range(MOST_WRONG + 1)]) == refused
    assert guesses([f"2001:db8:0:{number:x}::1" for number in range(2, MOST_WRONG + 3)]) == [401] * (MOST_WRONG + 1)
