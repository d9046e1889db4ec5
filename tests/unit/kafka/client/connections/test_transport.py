"""How requests become TLS records, against a real TLS server at the other end of a pair of sockets."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from srm_common.domain.cluster import PemTexts
from srm_common.kafka.client.connections.event_loop import EventLoop
from srm_common.kafka.client.connections.transport import FrameTlsTransport
from srm_common.kafka.client.logins.security import tls_context
from tests.unit.kafka.client.protocol.test_frames import Received, asking

#: A full record of TLS 1.3 with AES-GCM or ChaCha20: 16 KB, its kind and a tag; below a header of five bytes.
FULL, HEADER = (16 << 10) + 1 + 16, struct.Struct(">BHH")


class TlsPair:
    """A transport that is ready, and what its peer gets."""

    def __init__(self, loop: EventLoop, certificate: Path) -> None:
        self.loop = loop
        with socket.create_server(("127.0.0.1", 0)) as listener:  # how much wakes a reader counts for TCP alone
            ours = socket.create_connection(listener.getsockname())
            self.peer, _ = listener.accept()
        for one in (ours, self.peer):
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.num_tickets = 0  # what the transport has not read would end the connection for its peer
        context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem", "hush")
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.server = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        trusted = tls_context(PemTexts(certificate_authority_file=str(certificate / "cert.pem")))
        self.transport = FrameTlsTransport(loop, ours, host="localhost", ssl_context=trusted)
        self.transport._write = True
        loop.run(self._shake_hands)

    async def _shake_hands(self) -> None:
        done = self.loop.call_soon_with_future(self.transport.handshake)
        while True:
            try:
                self.server.do_handshake()
                break
            except ssl.SSLWantReadError:
                self._answer()
                await self.loop.wait_read(self.peer)
                self.incoming.write(self.peer.recv(1 << 16))
        self._answer()
        await done

    def _answer(self) -> None:
        if self.outgoing.pending:
            self.peer.sendall(self.outgoing.read())

    def received(self, size: int) -> tuple[list[int], bytes]:
        """Lengths of the records that have come, and the ``size`` bytes that are in them."""
        data, text = bytearray(), bytearray()
        while len(text) < size:
            assert select.select([self.peer], [], [], 120)[0], f"only {len(text)} of {size} bytes have come"
            more = self.peer.recv(1 << 20)
            assert more, f"the connection has ended after {len(text)} of {size} bytes"
            data += more
            self.incoming.write(more)
            with suppress(ssl.SSLWantReadError):
                while part := self.server.read(1 << 20):
                    text += part
        lengths, at = [], 0
        while at < len(data):
            lengths.append(HEADER.unpack_from(data, at)[2])
            at += HEADER.size + lengths[-1]
        return lengths, bytes(text)


@pytest.fixture
def pair(certificate: Path) -> Iterator[TlsPair]:
    loop = EventLoop()
    pair = TlsPair(loop, certificate)
    yield pair
    pair.transport.abort()
    pair.peer.close()
    loop.close()


def sent(pair: TlsPair, requests: list[list[bytes]]) -> tuple[list[int], bytes]:
    """What comes of requests that one turn of the loop makes."""

    async def work() -> None:
        for request in requests:
            pair.transport.writelines(request)
        await pair.loop.sleep(0.01)

    pair.loop.run(work)
    return pair.received(sum(len(part) for request in requests for part in request))


def test_requests_of_a_turn_share_a_record(pair: TlsPair) -> None:
    requests = [[b"head", b"%03d" % number * 30] for number in range(40)]
    lengths, text = sent(pair, requests)
    assert text == b"".join(map(b"".join, requests))
    assert len(lengths) == 1


def test_what_is_sent_at_a_time_is_joined_or_a_view() -> None:
    """Each buffer would be a system call and a TLS record; what is larger than eight records stays where it is."""
    large = memoryview(bytes(range(250)) * 1200)
    buffers = [b"head", b"a" * 1000, large, b"b" * 100_000, b"c" * 40_000, b"", large[:131_072], b"tail"]
    pieces = list(FrameTlsTransport._pieces(cast(Any, None), buffers))
    assert b"".join(map(bytes, pieces)) == b"".join(map(bytes, buffers))
    assert [len(piece) for piece in pieces] == [1004, 131_072, 131_072, 37_856, 131_072, 8_928, 131_072, 4]
    assert pieces[1].obj is large.obj


@pytest.mark.parametrize("body", [100, 17_000, 38_000, 131_072, 400_000])
def test_batches_fill_the_records(pair: TlsPair, body: int) -> None:
    """A few bytes of header before each body; all records are full but those that end what is sent at a time."""
    request = [part for number in range(8) for part in (b"%061d" % number, bytes([number]) * body)]
    lengths, text = sent(pair, [request])
    assert text == b"".join(request)
    assert max(lengths) <= FULL
    # Of bodies that are not copied the last record is not full, and neither is that of the header before them.
    ends = 16 if body >= 128 << 10 else 1
    assert sum(length < FULL for length in lengths) <= ends


def test_what_was_put_off_is_sent_before_the_end(pair: TlsPair) -> None:
    async def work() -> None:
        pair.transport.writelines([b"last words"])
        pair.transport.close()
        await pair.loop.sleep(0.01)

    pair.loop.run(work)
    assert pair.received(10)[1] == b"last words"


@pytest.mark.parametrize("held", [1, 5, 6, 100, 16_000, 16_405, 16_406, 17_000, 40_000])
def test_a_large_answer_arrives_wherever_it_stops_for_a_while(pair: TlsPair, held: int) -> None:
    """The last ``held`` bytes of what is sent come later, in two pieces: records are cut anywhere."""
    large, small = bytes(range(256)) * 12_000, b"next"
    received = Received(pair.loop)
    pair.transport.set_protocol(received)
    for _ in range(2):
        received.parser.send_request(asking())
    for frame in (large, small):
        pair.server.write(struct.pack(">i", len(frame)))
        pair.server.write(frame)
    sealed = pair.outgoing.read()
    cuts = (0, len(sealed) // 3, len(sealed) - held, len(sealed) - held // 2, len(sealed))

    def serve() -> None:
        pair.peer.setblocking(True)
        for begin, end in pairwise(cuts):
            pair.peer.sendall(sealed[begin:end])
            time.sleep(0.05)

    thread = threading.Thread(target=serve)

    async def read() -> None:
        pair.transport.resume_reading()
        thread.start()
        end = time.monotonic() + 120
        while len(received.frames) < 2 and time.monotonic() < end:
            await pair.loop.sleep(0.01)

    pair.loop.run(read)
    thread.join(180)
    assert received.frames == [large, small]
