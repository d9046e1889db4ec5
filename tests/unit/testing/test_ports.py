"""A reserved port is usable by a server of ours and by nobody who asks for any free one."""

from __future__ import annotations

import socket

import pytest

from srm_common.testing.ports import ReservedPort, without_proxy


def serve(port: int) -> socket.socket:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", port))
    server.listen()
    return server


def test_a_server_can_come_and_go_on_it() -> None:
    port = ReservedPort()
    assert not port.answers()
    for _ in range(2):
        with serve(port.number):
            assert port.answers()
        assert not port.answers()
    port.release()


def test_nobody_is_given_it() -> None:
    kept = {(port := ReservedPort()).number: port for _ in range(500)}
    assert len(kept) == 500
    for _ in range(2000):
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", 0))
            assert other.getsockname()[1] not in kept
    for port in kept.values():
        port.release()


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ({}, "127.0.0.1,localhost"),
        ({"NO_PROXY": ".corp"}, ".corp,127.0.0.1,localhost"),
        ({"NO_PROXY": ".corp", "no_proxy": ".lab"}, ".lab,127.0.0.1,localhost"),
        ({"no_proxy": "*"}, "*"),  # which counts only alone
    ],
)
def test_no_proxy_is_asked_for_it(environment: dict[str, str], names: str) -> None:
    assert without_proxy(environment) == {"no_proxy": names, "NO_PROXY": names}
