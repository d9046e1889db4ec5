"""Services that answer wrongly, slowly or not at all, on real sockets."""

from __future__ import annotations

import base64
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from pydantic import BaseModel

from srm_common.domain.flow.service_advertisement import Advertisement
from srm_common.errors import PeerError
from srm_common.rest.peers.client import ask
from srm_common.settings_files.service_settings import Login, ServiceSettings
from srm_common.testing.ports import ReservedPort

QUICK = ServiceSettings(peers_timeout_seconds=0.5)
PATIENT = ServiceSettings(peers_timeout_seconds=120)


class Greeting(BaseModel):
    hello: str


class Peer:
    """Answers each connection with the same bytes and remembers what it was asked."""

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        self._answer = answer
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.asked = b""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def advertised(self) -> Advertisement:
        return Advertisement.of("west", f"http://127.0.0.1:{self._socket.getsockname()[1]}/srm", ["west"], 1000)

    def _serve(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:
            return
        with closing(connection):
            while not self.asked.endswith(b"\r\n\r\n"):
                self.asked += connection.recv(4096)
            try:
                self._answer(connection)
            except OSError:
                return  # whoever asked has gone

    def close(self) -> None:
        self._socket.close()


Make = Callable[[Callable[[socket.socket], None] | bytes], Peer]


@pytest.fixture
def peer() -> Iterator[Make]:
    made: list[Peer] = []

    def make(answer: Callable[[socket.socket], None] | bytes) -> Peer:
        made.append(Peer((lambda to: to.sendall(answer)) if isinstance(answer, bytes) else answer))
        return made[-1]

    yield make
    for one in made:
        one.close()


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def refusal(of: Peer, settings: ServiceSettings = PATIENT) -> str:
    with pytest.raises(PeerError) as caught:
        ask(of.advertised, "/x", [], Greeting, settings)
    assert f"service 'west' ({of.advertised.url}) " in str(caught.value)
    return str(caught.value)


def test_it_asks_below_the_root_path_with_the_login_of_the_host(peer: Make) -> None:
    west = peer(http(b'{"hello": "you"}'))
    settings = ServiceSettings(peers_timeout_seconds=120, logins={"127.0.0.1": Login("ann", "se:same\u00e9")})
    assert ask(west.advertised, "/x", [("a", "1 2"), ("a", "&")], Greeting, settings) == Greeting(hello="you")
    assert west.asked.startswith(b"GET /srm/x?a=1+2&a=%26 HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Basic " + base64.b64encode("ann:se:same\u00e9".encode()) in west.asked


def test_logins_of_other_hosts_stay_here(peer: Make) -> None:
    west = peer(http(b'{"hello": "you"}'))
    settings = ServiceSettings(peers_timeout_seconds=120, logins={"east.example": Login(token="s3cret")})
    ask(west.advertised, "/x", [], Greeting, settings)
    assert b"s3cret" not in west.asked
    assert b"Authorization" not in west.asked


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "cannot be queried"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "cannot be queried"),
        (http(b"<html>hello</html>"), "returned an unreadable response: the text: Invalid JSON"),
        (http(b'{"hello": 1}'), "returned an unreadable response: hello: Input should be a valid string"),
        (http(b"[" * 100_000), "returned an unreadable response"),
        (http(b"\xff\xfe\x00"), "returned an unreadable response"),
        (http(b"{}", "401 Unauthorized"), "refuses the login (HTTP 401); see service.peer.127.0.0.1.user"),
        (http(b"{}", "403 Forbidden"), "refuses the login (HTTP 403)"),
        (http(b"", "307 See", "Location: http://169.254.169.254/"), "redirects (HTTP 307)"),
        (http(b"", "500 Oh"), "responds with HTTP 500"),
        (http(b'{"errors": []}', "500 Oh"), "responds with HTTP 500"),
        (http(b'{"errors": [{"code": "busy", "message": "later"}]}', "503 Oh"), "responds with HTTP 503: later"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "cannot be queried: its answer was cut off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "cannot be queried"),
    ],
)
def test_an_answer_that_is_none_is_one_sentence(peer: Make, answer: bytes, said: str) -> None:
    text = refusal(peer(answer))
    assert said in text
    assert "\n" not in text


def test_who_says_nothing_is_left_after_the_limit(peer: Make) -> None:
    assert "did not respond within 0.5 s" in refusal(peer(lambda to: time.sleep(60)), QUICK)


def test_who_says_one_letter_at_a_time_is_left_too(peer: Make) -> None:
    def slowly(to: socket.socket) -> None:
        to.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            to.sendall(b" ")
            time.sleep(0.1)

    assert "did not respond within 0.5 s" in refusal(peer(slowly), QUICK)


def test_who_never_ends_is_left(peer: Make) -> None:
    def endlessly(to: socket.socket) -> None:
        to.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            to.sendall(b" " * 65_536)

    assert "returns more than 32 MB" in refusal(peer(endlessly))


def test_where_nobody_listens() -> None:
    port = ReservedPort()
    with pytest.raises(PeerError, match=r"cannot be queried: .*refused"):
        ask(Advertisement.of("west", f"http://{port.address}", [], 1000), "/x", [], Greeting, PATIENT)
    port.release()


def test_a_host_that_is_not_allowed_is_not_asked(peer: Make) -> None:
    west = peer(http(b'{"hello": "you"}'))
    hosts = (r".*\.example",)
    assert "service.peers.hosts does not allow" in refusal(west, ServiceSettings(peers_hosts=hosts))
    assert west.asked == b""
