"""The client of schema registries, on one in the same process: what it says when a registry does not do as asked."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srm_common.domain.cluster import ClusterSettings, PemTexts, RegistrySettings
from srm_common.domain.schemas.schemas import SchemaVersion
from srm_common.errors import RegistryError
from srm_common.schema_registry.registry import SchemaRegistry
from srm_common.testing import LocalRegistry, ReservedPort
from tests.kafka.authority import Authority

SCHEMA = SchemaVersion("orders-value", 3, 7, '"string"')


@pytest.fixture
def server() -> Iterator[LocalRegistry]:
    with LocalRegistry() as server:
        yield server


def client(*urls: str, timeout_seconds: float = 30.0, **login: Any) -> SchemaRegistry:
    cluster = ClusterSettings.plaintext("b", "localhost:9092")
    return SchemaRegistry(
        replace(cluster, schema_registry=RegistrySettings(urls, **login)), timeout_seconds=timeout_seconds
    )


@pytest.mark.parametrize("page", [1, 2, 3])
def test_everything_is_listed_page_by_page_with_contexts_and_soft_deletes(server: LocalRegistry, page: int) -> None:
    server.page = page
    for number in range(7):
        server.register(f"s{number}", f'{{"n": {number}}}')
    server.register(":.east:s1", '{"n": 1}')
    server.register(":.east:s0", '{"n": 0}', kind="JSON", references=[{"name": "n", "subject": "s1", "version": 1}])
    server.delete("s4", 1)
    server.set_level("s1", "FULL")
    with client(server.url) as registry:
        view = registry.view(levels_of=lambda subject: True, whole=[""])
    assert len(view.schemas) == 9
    assert [place for place, one in view.schemas.items() if one.deleted] == [("s4", 1)]
    assert view.schemas[":.east:s0", 1].references[0].subject == ":.east:s1"
    assert view.levels == {"": "BACKWARD", "s1": "FULL"}


def test_a_schema_is_not_taken_for_deleted_because_another_one_is_while_pages_are_read(server: LocalRegistry) -> None:
    server.page = 3
    for number in range(7):
        server.register(f"s{number}", f'{{"n": {number}}}')

    def meanwhile(method: str, path: str) -> None:
        if path.startswith("/schemas?") and "deleted=false" in path and "offset=0" not in path:
            server.fault = lambda method, path: None
            server.delete("s0", 1)

    server.fault = meanwhile
    with client(server.url) as registry:
        view = registry.view()
    assert [place for place, one in view.schemas.items() if one.deleted] == [("s0", 1)]


def test_a_list_that_never_stands_still_is_given_up(server: LocalRegistry) -> None:
    server.page = 3
    for number in range(50):
        server.register(f"s{number:02}", f'{{"n": {number}}}')
    left = iter(range(50))

    def meanwhile(method: str, path: str) -> None:
        if path.startswith("/schemas?") and "deleted=false" in path and "offset=0" not in path:
            server.delete(f"s{next(left):02}", 1)

    server.fault = meanwhile
    with client(server.url) as registry, pytest.raises(RegistryError, match="have changed 5 times while"):
        registry.view()


def test_a_registry_without_contexts_and_pages_is_listed_too() -> None:
    with LocalRegistry(contexts=False, imports=False) as server, client(server.url) as registry:
        server.register("a", '"string"')
        assert list(registry.view().schemas) == [("a", 1)]


def test_each_address_is_tried_in_turn_and_the_one_that_answered_goes_first(server: LocalRegistry) -> None:
    port = ReservedPort()
    try:
        with client(f"http://{port.address}", server.url) as registry:
            assert registry.view().schemas == {}
            port.release()
            assert registry.level("") == "BACKWARD"
    finally:
        port.release()


def test_a_registry_that_is_down_is_named_with_what_was_asked() -> None:
    port = ReservedPort()
    try:
        with client(f"http://{port.address}") as registry, pytest.raises(RegistryError) as caught:
            registry.register(SCHEMA)
    finally:
        port.release()
    assert str(caught.value).startswith(
        "the schema registry of b did not respond when trying to register version 3 of subject orders-value with id 7 ("
    )
    assert "check b.schema.registry.url" in str(caught.value)


def test_a_registry_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            client(url, timeout_seconds=0.2) as registry,
            pytest.raises(RegistryError, match=r"no answer within 0\.2 s"),
        ):
            registry.level("a")


def test_an_answer_that_never_comes_to_its_end_is_given_up() -> None:
    """Each piece of its headers comes in time."""
    ended = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(9999)
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not ended.wait(0.05):
                connection.sendall(b"a")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=drip, args=(listener,))
        server.start()
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with (
                client(url, timeout_seconds=0.5) as registry,
                pytest.raises(RegistryError, match=r"no answer within 0\.5 s"),
            ):
                registry.level("a")
        finally:
            ended.set()
            server.join()


def test_time_that_a_name_took_is_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver has limits of its own; then there is no connection yet that could be ended."""
    resolved = socket.getaddrinfo

    def slow(*arguments: Any, **named: Any) -> Any:
        time.sleep(0.4)
        return resolved(*arguments, **named)

    with socket.create_server(("127.0.0.1", 0)) as silent, monkeypatch.context() as patch:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        patch.setattr(socket, "getaddrinfo", slow)
        with (
            client(url, timeout_seconds=0.2) as registry,
            pytest.raises(RegistryError, match=r"no answer within 0\.2 s"),
        ):
            registry.level("s")
        silent.setblocking(False)
        connection, _ = silent.accept()
        with connection:
            assert connection.recv(1) == b"", "a request was sent after its time"


def test_a_certificate_has_to_be_vouched_for_and_to_be_of_the_host(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.vouch_for("localhost"))
    with LocalRegistry(tls=context) as server:
        trust = PemTexts(certificate_authority=authority.pem.read_text())
        named = server.url.replace("127.0.0.1", "localhost")
        with client(named, tls=trust) as registry:
            assert registry.level("") == "BACKWARD"
        for url, tls, reason in (
            (server.url, trust, "not valid for '127.0.0.1'"),
            (named, PemTexts(), "issuer certificate"),
        ):
            with client(url, tls=tls) as registry, pytest.raises(RegistryError) as caught:
                registry.level("")
            assert str(caught.value).startswith(
                "the certificate of the schema registry of b is not accepted when trying"
            )
            assert reason in str(caught.value)
            assert "check b.schema.registry.url and b.schema.registry.ssl.truststore.location" in str(caught.value)


def test_a_connection_that_was_closed_meanwhile_is_made_again(server: LocalRegistry) -> None:
    ended: list[str] = []

    def once(method: str, path: str) -> None:
        if not ended and path == "/config/a":
            ended.append(path)
            raise ConnectionError

    server.fault = once
    with client(server.url) as registry:
        assert registry.level("") == "BACKWARD"
        assert registry.level("a") is None
    assert ended == ["/config/a"]


@pytest.mark.parametrize("answer", [b"<html>", b"{}", b"null", b'[{"subject": "a"}]', b"[1]"])
def test_what_no_registry_answers_is_refused(server: LocalRegistry, answer: bytes) -> None:
    server.fault = lambda method, path: (200, answer) if path.startswith("/schemas") else None
    with client(server.url) as registry, pytest.raises(RegistryError) as caught:
        registry.view()
    assert str(caught.value) == (
        f"{server.url} is not a schema registry: asked to list its schemas, it gave an answer that no registry gives; "
        "check b.schema.registry.url"
    )


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (
            403,
            b'{"error_code": 40301, "message": "Denied"}',
            "denies permission to register version 3 of subject orders-v",
        ),
        (409, b'{"error_code": 409, "message": "not compatible"}', "(HTTP 409): not compatible"),
        (422, b'{"error_code": 42201, "message": "Invalid"}', "(HTTP 422, error 42201): Invalid"),
        (404, b"no such page", "(HTTP 404): no such page"),
        (500, b'{"error_code": 50001, "message": "store"}', "(HTTP 500, error 50001): store"),
        (302, b"", "redirects to another address"),
    ],
)
def test_a_refusal_names_registry_subject_version_and_id(
    server: LocalRegistry, status: int, body: bytes, text: str
) -> None:
    server.fault = lambda method, path: (status, body)
    with client(server.url) as registry, pytest.raises(RegistryError) as caught:
        registry.register(SCHEMA)
    sentence = str(caught.value)
    assert text in sentence
    assert f"of b at {server.url}" in sentence
    assert "version 3 of subject orders-value with id 7" in sentence
    assert caught.value.status == status


def test_a_page_of_a_gateway_does_not_say_that_a_subject_has_no_level(server: LocalRegistry) -> None:
    server.fault = lambda method, path: (404, b"<html>no route</html>")
    with client(server.url) as registry:
        for ask in (registry.level, registry.mode, lambda subject: registry.version(subject, 1)):
            with pytest.raises(RegistryError, match=r"\(HTTP 404\): <html>no route"):
                ask("orders-value")
        with pytest.raises(RegistryError, match="no route"):
            registry.set_mode("orders-value", None)


def test_the_login_is_sent_and_its_secret_never_shown(server: LocalRegistry) -> None:
    server.login = "srm:geheim"
    with client(server.url, user="srm", password="geheim") as registry:
        assert registry.level("") == "BACKWARD"
    with client(server.url, user="srm", password="falsch") as registry, pytest.raises(RegistryError) as caught:
        registry.level("")
    assert "refuses the login of 'srm'" in str(caught.value)
    assert "falsch" not in str(caught.value)
    with client(server.url, token="falsch") as registry, pytest.raises(RegistryError, match="refuses the login when"):
        registry.level("")


def test_an_id_that_was_not_asked_for_is_noticed() -> None:
    with LocalRegistry(contexts=False, imports=False) as server, client(server.url) as registry:
        expected = "has assigned id 1 to version 3 of subject orders-value, not 7 as requested"
        with pytest.raises(RegistryError, match=expected):
            registry.register(SCHEMA)


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize(
    "answer",
    [b"[" * 200_000, b'{"error_code": 1e999, "message": "no"}', b'[{"subject": "a", "version": 1e999, "id": 1}]'],
)
def test_numbers_without_end_and_nesting_without_end_are_faults_of_the_registry(
    server: LocalRegistry, answer: bytes, status: int
) -> None:
    server.fault = lambda method, path: (status, answer) if path.startswith("/schemas") else None
    with client(server.url) as registry, pytest.raises(RegistryError, match=server.url):
        registry.view()


@pytest.mark.parametrize("answer", [b"{}", b'{"schema": 5}', b'{"schema": null}', b'{"schema": "1", "schemaType": []}'])
def test_a_schema_without_text_is_no_schema(server: LocalRegistry, answer: bytes) -> None:
    """Taken as an empty one, it would make faults of records that are right."""
    server.fault = lambda method, path: (200, answer)
    with client(server.url) as registry:
        with pytest.raises(RegistryError, match="is not a schema registry: asked to show schema 7, it gave"):
            registry.by_id(7)
        with pytest.raises(RegistryError, match="asked to show version 3 of subject s, it gave"):
            registry.version("s", 3)


@pytest.mark.parametrize("answer", [b'{"compatibilityLevel": 5, "mode": 5}', b'{"compatibility": {}, "mode": []}'])
def test_a_level_or_mode_that_is_no_text_is_none(server: LocalRegistry, answer: bytes) -> None:
    server.fault = lambda method, path: (200, answer)
    with client(server.url) as registry:
        with pytest.raises(RegistryError, match="asked to show the compatibility of subject s, it gave"):
            registry.level("s")
        with pytest.raises(RegistryError, match="asked to show the mode of subject s, it gave"):
            registry.mode("s")


def test_what_cannot_be_an_id_is_no_schema(server: LocalRegistry) -> None:
    # As Confluent's registry does, whose route takes a Java int.
    server.fault = lambda method, path: (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}')
    with client(server.url) as registry:
        assert registry.by_id(1 << 31) is None
        assert registry.by_id((1 << 32) - 1) is None
        with pytest.raises(RegistryError, match="HTTP 404"):
            registry.by_id((1 << 31) - 1)
