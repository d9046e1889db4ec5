"""Registries with HTTPS behind a proxy, which is one of the test's process."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from srm_common.domain.cluster import ClusterSettings, PemTexts, RegistrySettings
from srm_common.errors import ConfigError, RegistryError
from srm_common.schema_registry.proxy import Proxy
from srm_common.schema_registry.registry import SchemaRegistry
from srm_common.testing import LocalRegistry
from tests.kafka.authority import Authority

LOGIN = "Basic c3JtOmcjaGVpbQ=="  # srm:g#heim


class ConnectProxy:
    """Opens tunnels for those with the login to port 443 of ``registry.test``, which only the proxy can reach."""

    def __init__(self, port: int) -> None:
        self.asked: list[str] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_CONNECT(self) -> None:
                asked.append(self.path)
                if self.headers["Proxy-Authorization"] != LOGIN:
                    self.send_error(407, "Proxy Authentication Required")
                    return
                self.send_response(200)
                self.end_headers()
                with socket.create_connection(("127.0.0.1", port)) as there:
                    back = threading.Thread(target=_pass_on, args=(there, self.connection))
                    back.start()
                    _pass_on(self.connection, there)
                    back.join()

            def log_message(self, format: str, *arguments: object) -> None:
                """Nothing on stderr."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(1 << 16):
            other.sendall(data)
    with contextlib.suppress(OSError):
        other.shutdown(socket.SHUT_WR)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "http_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


@pytest.fixture
def registry(authority: Authority) -> Iterator[LocalRegistry]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.vouch_for("registry.test"))
    with LocalRegistry(tls=context) as registry:
        yield registry


@pytest.fixture
def proxy(registry: LocalRegistry) -> Iterator[ConnectProxy]:
    proxy = ConnectProxy(int(registry.url.rpartition(":")[2]))
    thread = threading.Thread(target=proxy.server.serve_forever, args=(0.05,))
    thread.start()
    yield proxy
    proxy.server.shutdown()
    thread.join()
    proxy.server.server_close()


def client(authority: Authority, url: str = "https://registry.test") -> SchemaRegistry:
    settings = RegistrySettings((url,), tls=PemTexts(certificate_authority=authority.pem.read_text()))
    cluster = replace(ClusterSettings.plaintext("b", "localhost:9092"), schema_registry=settings)
    return SchemaRegistry(cluster, timeout_seconds=30.0)


def test_a_registry_is_reached_by_a_tunnel_through_which_its_own_certificate_is_checked(
    proxy: ConnectProxy, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://srm:g%23heim@127.0.0.1:{proxy.port}")
    with client(authority) as registry:
        assert registry.level("") == "BACKWARD"
        assert registry.level("orders-value") is None
    assert proxy.asked == ["registry.test:443"]
    with client(authority, "https://other.test:8081") as registry, pytest.raises(RegistryError, match="certificate"):
        registry.level("")
    assert proxy.asked[1:] == ["other.test:8081"]


def test_a_proxy_that_refuses_the_login_is_named_without_it(
    proxy: ConnectProxy, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"srm:falsch@127.0.0.1:{proxy.port}")
    with client(authority) as registry, pytest.raises(RegistryError) as caught:
        registry.level("")
    assert f"(https://registry.test by the proxy 127.0.0.1:{proxy.port}: Tunnel connection failed: 407" in str(
        caught.value
    )
    assert "falsch" not in str(caught.value)
    assert "falsch" not in repr(Proxy.of("https://registry.test"))


def test_a_host_of_no_proxy_and_one_without_tls_are_reached_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "localhost,.corp,registry.test:8081")
    direct = ("https://a.corp", "https://localhost:8081", "https://registry.test:8081", "http://registry.test")
    assert [Proxy.of(url) for url in direct] == [None] * 4
    assert Proxy.of("https://registry.test") == Proxy("proxy", 3128, {})


@pytest.mark.parametrize(
    "written", ["https://u:geheim@proxy:1", "socks5://u:geheim@p", "http://u:geheim@p:x", "http://"]
)
def test_what_is_no_address_of_a_proxy_is_an_error_without_its_password(
    written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", written)
    with pytest.raises(ConfigError, match=r"HTTPS_PROXY, by way of which r\.test is to be reached, must be") as caught:
        Proxy.of("https://r.test")
    assert "geheim" not in str(caught.value)
