"""Servers on loopback that do not respond, or not as Kafka does."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest


@contextmanager
def black_hole(host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """``host:port`` where the kernel drops what would open a connection, as if the machine were gone."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # after a broker that was killed
        listener.bind((host, port))
        listener.listen(0)
        while True:
            knock = stack.enter_context(socket.socket())
            knock.setblocking(False)
            knock.connect_ex(listener.getsockname())
            if not select.select([], [knock], [], 0.5)[1]:
                break  # the queue of connections that wait to be taken is full
        yield "{}:{}".format(*listener.getsockname())


@contextmanager
def peer(answer: bytes | None = None, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """``host:port`` of a server that takes connections, and answers the first bytes with ``answer``, or never."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((host, port), backlog=50))
        taken: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                taken.append(connection)
                if answer is not None:
                    try:
                        if connection.recv(1 << 16):
                            connection.sendall(answer)
                        connection.shutdown(socket.SHUT_WR)
                    except OSError:
                        continue  # the client has left

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield "{}:{}".format(*listener.getsockname())
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for connection in taken:
                connection.close()
            thread.join(300)


@contextmanager
def named(name: str, *addresses: str) -> Iterator[None]:
    """Let the name server know ``name``, by these addresses in this order."""
    resolve = socket.getaddrinfo

    def resolved(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if host != name:
            return resolve(host, port, *args, **options)
        if options.get("flags", 0) & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "a name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", resolved)
        yield


@contextmanager
def relay(address: str) -> Iterator[tuple[str, threading.Event]]:
    """``host:port`` in front of ``address``, and the event after which it passes no answer on."""
    host, _, port = address.rpartition(":")
    silent = threading.Event()
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=50))
        pairs: list[socket.socket] = []
        threads: list[threading.Thread] = []

        def pump(come: socket.socket, go: socket.socket, *, answers: bool) -> None:
            with suppress(OSError):  # either side has left
                while data := come.recv(1 << 16):
                    if not (answers and silent.is_set()):
                        go.sendall(data)
            with suppress(OSError):
                go.shutdown(socket.SHUT_RDWR)

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                server = socket.create_connection((host, int(port)))
                pairs.extend((client, server))
                for come, go, answers in ((client, server, False), (server, client, True)):
                    threads.append(threading.Thread(target=pump, args=(come, go), kwargs={"answers": answers}))
                    threads[-1].start()

        accepting = threading.Thread(target=serve)
        accepting.start()
        try:
            yield "{}:{}".format(*listener.getsockname()), silent
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(300)
            for pair in pairs:
                with suppress(OSError):
                    pair.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(300)
            for pair in pairs:
                pair.close()
