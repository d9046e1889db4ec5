"""A TCP proxy in front of one broker that loses requests or answers of chosen kinds, delays or swallows what comes, and
cuts connections, as a broken network would.

The broker must advertise the proxy's address, else clients leave it after bootstrapping::

    proxy = LossyProxy()
    kafka = LocalKafka(settings={"advertised.listeners": f"CLIENT://{proxy.address}"})
    with proxy.before(kafka.bootstrap_servers), kafka: ...

Only connections of clients whose id starts with ``client_id`` suffer: the broker's own talk passes too.
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 0, 22, 24, 26
FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, DESCRIBE_PRODUCERS = 1, 2, 3, 10, 61

_SIZE = struct.Struct(">i")
#: api key, version, correlation id, length of the client id
_HEADER = struct.Struct(">hhih")
_CORRELATION = struct.Struct(">i")


class LossyProxy:
    """Forwards frame by frame; ``lose`` arms it. Thread-safe."""

    def __init__(self, client_id: str = "srm.", seed: int = 0) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._client_id = client_id.encode()
        self._upstream = ("", 0)
        self._lock = threading.Lock()
        self._answers: Counter[int] = Counter()
        self._requests: Counter[int] = Counter()
        self._share: dict[int, float] = {}
        #: By api key and whether it is the answer that counts: how many pass yet, and what is done then.
        self._acts: dict[tuple[int, bool], tuple[int, Callable[[], object]]] = {}
        self._random = random.Random(seed)
        self._delay_seconds = 0.0
        self._swallows = False
        self._pairs: set[_Pair] = set()
        self._closed = False
        #: How many were lost, by api key.
        self.lost: Counter[int] = Counter()

    def before(self, address: str) -> Self:
        """Forward to ``host:port``."""
        host, _, port = address.rpartition(":")
        self._upstream = (host, int(port))
        return self

    def lose_answers(self, api_key: int, count: int = 1) -> None:
        """The next ``count`` requests of the kind are carried out, but their answer never comes: connection lost."""
        with self._lock:
            self._answers[api_key] += count

    def lose_requests(self, api_key: int, count: int = 1) -> None:
        """The next ``count`` requests of the kind never reach the broker: connection lost."""
        with self._lock:
            self._requests[api_key] += count

    def lose_share(self, api_key: int, share: float) -> None:
        """From now on this share of the kind's answers is lost; 0 ends it."""
        with self._lock:
            self._share[api_key] = share

    def at(self, api_key: int, number: int, act: Callable[[], object], *, answered: bool = False) -> None:
        """Call ``act`` when the ``number``-th request of the kind comes, which is lost before it reaches the broker; or
        when it was carried out, in place of its answer."""
        with self._lock:
            self._acts[api_key, answered] = number - 1, act

    def delay(self, seconds: float) -> None:
        """From now on each answer waits that long, one after the other on each connection."""
        with self._lock:
            self._delay_seconds = seconds

    def swallow(self) -> None:
        """From now on nothing passes, and no connection ends, as behind a firewall that forgot them. Connections that
        tried something meanwhile stay silent forever: only a time-out tells their clients."""
        with self._lock:
            self._swallows = True

    def cut(self) -> None:
        """End all connections of the clients, whatever is on its way."""
        with self._lock:
            pairs = [pair for pair in self._pairs if pair.ours]
        for pair in pairs:
            pair.end()

    def calm(self) -> None:
        """Lose, delay and swallow nothing any more."""
        with self._lock:
            self._delay_seconds = 0.0
            self._swallows = False
            self._acts.clear()
            self._answers.clear()
            self._requests.clear()
            self._share.clear()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="lossy-proxy", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(self._upstream, timeout=60)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            for sock in (client, broker):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = _Pair(self, client, broker)
            with self._lock:
                self._pairs.add(pair)
            pair.start()

    def _acts_on(self, api_key: int, answered: bool) -> bool:
        with self._lock:
            left, act = self._acts.pop((api_key, answered), (0, None))
            if act is not None and left:
                self._acts[api_key, answered] = left - 1, act
        if act is None or left:
            return False
        act()
        return True

    def _loses_request(self, api_key: int) -> bool:
        if self._acts_on(api_key, False):
            return True
        with self._lock:
            if self._requests[api_key] <= 0:
                return False
            self._requests[api_key] -= 1
            self.lost[api_key] += 1
            return True

    def _loses_answer(self, api_key: int) -> bool:
        if self._acts_on(api_key, True):
            return True
        with self._lock:
            if self._answers[api_key] > 0:
                self._answers[api_key] -= 1
            elif self._random.random() >= self._share.get(api_key, 0.0):
                return False
            self.lost[api_key] += 1
            return True


class _Pair:
    """One client's connection and the one to the broker."""

    def __init__(self, proxy: LossyProxy, client: socket.socket, broker: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._broker = broker
        #: Requests that wait for their answer: correlation id, api key.
        self._waiting: deque[tuple[int, int]] = deque()
        #: Whether the client is one of those that suffer; known from its first request on.
        self.ours = False
        self._silent = False

    def start(self) -> None:
        for work in (self._to_broker, self._to_client):
            threading.Thread(target=self._run, args=(work,), name="lossy-proxy-pair", daemon=True).start()

    def _run(self, work: object) -> None:
        try:
            assert callable(work)
            work()
        except OSError:
            pass  # either side went away: the other one is told below
        finally:
            self.end()
            with self._proxy._lock:
                self._proxy._pairs.discard(self)

    def end(self) -> None:
        """End both connections."""
        for sock in (self._client, self._broker):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _is_silent(self) -> bool:
        self._silent = self._silent or (self.ours and self._proxy._swallows)
        return self._silent

    def _to_broker(self) -> None:
        while True:
            frame = _frame(self._client)
            api_key, _, correlation, length = _HEADER.unpack_from(frame, _SIZE.size)
            start = _SIZE.size + _HEADER.size
            self.ours = frame[start : start + max(length, 0)].startswith(self._proxy._client_id)
            if self._is_silent():
                continue
            if self.ours and self._proxy._loses_request(api_key):
                return
            # acks=0 has no answer; nobody here asks for it.
            self._waiting.append((correlation, api_key))
            self._broker.sendall(frame)

    def _to_client(self) -> None:
        while True:
            frame = _frame(self._broker)
            (number,) = _CORRELATION.unpack_from(frame, _SIZE.size)
            correlation, api_key = self._waiting.popleft()
            if number != correlation:
                raise AssertionError(f"the proxy lost count: {number} instead of {correlation}")
            if self._is_silent():
                continue
            if self.ours and self._proxy._loses_answer(api_key):
                return
            if self.ours and self._proxy._delay_seconds:
                time.sleep(self._proxy._delay_seconds)
            self._client.sendall(frame)


def _frame(sock: socket.socket) -> bytes:
    head = _exactly(sock, _SIZE.size)
    (size,) = _SIZE.unpack(head)
    return head + _exactly(sock, size)


def _exactly(sock: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = sock.recv(min(size, 1 << 18))
        if not part:
            raise ConnectionResetError("end of stream")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
