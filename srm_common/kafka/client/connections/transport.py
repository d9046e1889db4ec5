"""kafka-python's connections with a transport made for large frames.

The library receives 4 KB at a time, joins the pieces, and encodes requests into one buffer. Here a response is
received straight into one buffer (for Fetch, a leased one that is used again), and a request may be a list of
buffers, sent by ``sendmsg``. Everything else (bootstrap, TLS and SASL handshakes, re-authentication, back-off,
version negotiation, time-outs, throttling) stays the library's.
"""

from __future__ import annotations

import fcntl
import socket
import ssl
import struct
import termios
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from srm_common.kafka.client.connections.connection_faults import fault_text, foreign_answer
from srm_common.kafka.client.connections.dialing import place_text
from srm_common.kafka.client.library import Errors, KafkaSSLTransport, KafkaTCPTransport

#: The kernel wakes us when this much of a large frame has arrived: waking for every piece costs 40 % more CPU.
_WAKE_BYTES = 1 << 20
#: Linux takes at most 1024 buffers in one ``sendmsg`` (``UIO_MAXIOV``).
_MOST_BUFFERS = 1024
_FRAME = struct.Struct(">i")
_FRAME_BYTES = _FRAME.size
_COUNT = struct.Struct("@i")
#: Requests of one turn of the loop are sent together up to this size; a longer wait would keep the broker waiting.
_TOGETHER_BYTES = 64 << 10
#: Size of the buffer into which small frames are received together.
_STAGING_BYTES = 64 << 10
#: ``_ssl.ENCODING_DER``.
_ENCODING_DER = 2
#: The largest TLS record, its header and the most that a cipher may add (RFC 5246, 6.2.3).
_TLS_RECORD_BYTES = (16 << 10) + 2048 + 5
#: What is given to OpenSSL at a time: eight full TLS records (RFC 8446, 5.1).
_TLS_SEND_BYTES = 128 << 10


def _queued(sock: socket.socket, which: int) -> int:
    """Bytes in one of the kernel's queues of a socket; 0 where the system does not say."""
    try:
        return int(_COUNT.unpack(fcntl.ioctl(sock, which, bytes(_COUNT.size)))[0])
    except OSError:
        return 0


class _FrameIO:
    """Receives frame by frame and sends at once; shared by the plain and the TLS transport.

    Small frames come several at a time through a staging buffer; the rest of a large one is received in place.
    """

    _net: Any
    _sock: Any
    _protocol: Any
    _read: bool
    _write: bool
    _writing: bool
    _closed: bool
    _write_buffer: deque[Any]
    _write_task: Any
    last_read: float
    last_write: float
    host: str | None
    #: Bytes of requests that the kernel took, and of answers that it gave, so far.
    taken_bytes = 0
    _received_bytes = 0
    _answered = False
    _wake_bytes = 1
    #: Whether a short read means that the kernel has nothing more (TLS keeps records of its own back).
    _short_means_empty = True
    #: The most that may already have been received of frames still to come.
    _held_bytes = 0
    #: Bytes that the kernel is still to take, and those of them that wait for the end of the loop's turn.
    _waiting_bytes = 0
    _put_off_bytes = 0
    #: Whether the beginning of a small frame, or of a large one, has been received.
    _begun = _large = False
    #: Whether the loop will end the collecting when nothing arrives.
    _collects = False

    def moved_bytes(self) -> int:
        """A figure that changes whenever the other side has acknowledged or sent something."""
        moved = self.taken_bytes + self.heard_bytes()
        return moved if self._sock is None else moved - _queued(self._sock, termios.TIOCOUTQ)

    def heard_bytes(self) -> int:
        """What the other side has sent so far, including what still waits in the kernel."""
        return self._received_bytes + (0 if self._sock is None else _queued(self._sock, termios.FIONREAD))

    async def _read_from_sock(self) -> None:
        staging = memoryview(bytearray(_STAGING_BYTES))
        filled = 0
        large: memoryview | None = None
        got = size = 0
        while self._read and not self._closed:
            await self._net.wait_read(self._sock)
            delivered = False
            try:
                while True:
                    room = large[got:] if large is not None else staging[filled:] if filled else staging
                    try:
                        count = int(self._sock.recv_into(room))
                    except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                        break
                    if not count:
                        if delivered:  # whoever waits for that answer sees it before the end of the connection
                            break
                        raise Errors.KafkaConnectionError("socket disconnected")
                    self._received_bytes += count
                    short = count < len(room)
                    del room  # nothing here may hold a buffer while the task waits
                    frames: list[bytes | memoryview] = []
                    if large is None:
                        frames, filled, large, got, size = self._cut(staging, filled + count)
                    else:
                        got += count
                    if large is not None and got == len(large):
                        if got == size:
                            frames.append(large)
                            large = None
                            self._wake_at(1)
                        else:
                            large = self._protocol.parser.larger(large, size)
                    if frames:
                        self.last_read = time.monotonic()
                        self._answered = delivered = True
                        for frame in frames:
                            if self._protocol is not None:
                                self._protocol.data_received(frame)
                        del frames, frame
                        if self._closed or self._protocol is None:
                            return
                    if short and self._short_means_empty:
                        break
                self._begun, self._large = filled > 0, large is not None
                if large is not None:
                    self._wake_at(min(len(large) - got, _WAKE_BYTES))
                elif self._wake_bytes > 1:
                    self._net.before_wait(self._collect)
            except OSError as error:
                self.abort(error=Errors.KafkaConnectionError(error))
                return
            except Errors.KafkaError as error:
                self.abort(error=error)
                return

    def _cut(
        self, staging: memoryview, filled: int
    ) -> tuple[list[bytes | memoryview], int, memoryview | None, int, int]:
        """Whole frames out of the staging buffer: (frames, bytes left in it, room for the beginning of a large frame,
        bytes that it has, its size).

        Frames are copied: they are small, and the buffer is used again at once.
        """
        frames: list[bytes | memoryview] = []
        parser = self._protocol.parser
        at = 0
        while filled - at >= _FRAME_BYTES:
            (size,) = _FRAME.unpack_from(staging, at)
            begin = at + _FRAME_BYTES
            end = begin + size
            if end > filled and 0 <= size <= _STAGING_BYTES // 2:
                break
            if end <= filled and size >= 0 and parser.is_copied(len(frames)):
                frames.append(bytes(staging[begin:end]))
                at = end
                continue
            # Buffers are handed out in the order of the requests.
            try:
                frame = parser.buffer_for(size, len(frames))
            except Errors.InvalidReceiveError as error:
                raise self._unreadable(bytes(staging[at : at + 4]), first=not frames, error=error) from error
            have = min(min(end, filled) - begin, len(frame))
            frame[:have] = staging[begin : begin + have]
            if have < size:
                return frames, 0, frame, have, size
            frames.append(frame)
            at = end
        left = filled - at
        if at and left:
            staging[:left] = bytes(staging[at:filled])
        return frames, left, None, 0, 0

    def _unreadable(self, head: bytes, *, first: bool, error: Exception) -> Exception:
        server = "the server"
        if self._sock is not None:
            peer, port = self._sock.getpeername()[:2]
            server = place_text((self.host or peer, port))
        text = foreign_answer(server, head) if first and not self._answered else f"{server} sent {fault_text(error)}"
        found: Exception = Errors.InvalidReceiveError(text)
        return found

    def _wake_at(self, size: int) -> None:
        """Ask the kernel to report the socket readable only from ``size`` bytes on, which are certain to come."""
        size = max(size - self._held_bytes, 1)
        if size != self._wake_bytes:
            self._wake_bytes = size
            with suppress(OSError):  # of a socket that has ended, as its next read will show
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)

    def _collect(self) -> None:
        """Before the loop waits: while more requests queue at the broker, one wake-up is enough for several answers.

        Answers that are left over, because the broker was faster or is far away, do not wait for the next ones.
        """
        if self._large or self._closed or self._protocol is None:
            return
        size = 1 if self._begun else self._protocol.bytes_worth_waking()
        self._wake_at(size)
        if size > 1 and not self._collects:
            self._collects = True
            self._net.when_quiet(self._wake_for_each)

    def _wake_for_each(self) -> None:
        self._collects = False
        if not (self._large or self._closed):
            self._wake_at(1)

    def write(self, data: Any) -> None:
        """Send one buffer, or a list of them; what the kernel does not take at once is queued."""
        self.writelines(data if isinstance(data, list) else [data])

    def writelines(self, list_of_data: Any) -> None:
        """Send a list of buffers; what the kernel does not take at once is queued."""
        if not self._write or self._closed:
            raise RuntimeError("Transport closed for writes")
        size = sum(map(len, list_of_data))
        self._waiting_bytes += size
        if self._writing:
            self._write_buffer.extend(self._pieces(list_of_data))
            return
        self._write_buffer.extend(list_of_data)
        if not self._put_off_bytes:
            self._net.before_wait(self.flush)
        self._put_off_bytes += size
        if self._put_off_bytes >= _TOGETHER_BYTES:
            self._send_now()

    def flush(self) -> None:
        """Send what was put off until now."""
        if self._put_off_bytes and not self._closed:
            self._send_now()
        self._collect()

    def _send_now(self) -> None:
        self._put_off_bytes = 0
        self._join()
        _sent, error = self._sock_send()
        self.last_write = time.monotonic()
        if error is not None:
            self._write_buffer.clear()
            # Not from inside the caller, who has yet to note that it waits for an answer.
            self._net.call_soon(lambda: self.abort(error=error))
        elif self._write_buffer:
            self._writing = True
            self._write_task = self._net.call_soon(self._write_to_sock)

    def _join(self) -> None:
        """Turn buffers that were put off, none of them sent yet, into the pieces that are sent at a time."""

    def _pieces(self, buffers: Iterable[Any]) -> Iterable[Any]:
        return buffers

    def _sock_send(self) -> tuple[int, Exception | None]:
        if self._sock is None:
            return 0, Errors.KafkaConnectionError("Connection closed during send")
        before = self.taken_bytes
        try:
            while self._write_buffer:
                self._send_some()
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError as error:
            return self.taken_bytes - before, Errors.KafkaConnectionError(error)
        return self.taken_bytes - before, None

    def _send_some(self) -> None:
        """One system call; counts and drops what the kernel took. Raises OSError."""
        raise AssertionError("each transport has its own")

    def abort(self, error: Exception | None = None) -> None:
        raise AssertionError("the library's transport class comes first")

    async def _write_to_sock(self) -> None:
        raise AssertionError("the library's transport class comes first")


def _cut_up(buffer: Any) -> Iterator[memoryview]:
    """What is given to OpenSSL at a time."""
    whole = memoryview(buffer)
    for at in range(0, len(whole), _TLS_SEND_BYTES):
        yield whole[at : at + _TLS_SEND_BYTES]


class FrameTransport(_FrameIO, KafkaTCPTransport):  # type: ignore[misc]
    """Plain sockets: receives into large buffers, sends lists of buffers at once."""

    async def handshake(self, timeout_at: float | None = None) -> None:
        """Plain connections need none."""

    def close(self) -> None:
        """End the connection when all was sent."""
        self.flush()
        super().close()

    def _send_some(self) -> None:
        pending = self._write_buffer
        buffers = list(pending) if len(pending) <= _MOST_BUFFERS else [pending[i] for i in range(_MOST_BUFFERS)]
        sent = self._sock.sendmsg(buffers)
        self.taken_bytes += sent
        self._waiting_bytes -= sent
        if not self._waiting_bytes:
            pending.clear()
            return
        while pending and sent >= len(pending[0]):
            sent -= len(pending.popleft())
        if sent:
            pending[0] = memoryview(pending[0])[sent:]

    abort = KafkaTCPTransport.abort
    _write_to_sock = KafkaTCPTransport._write_to_sock


class FrameTlsTransport(_FrameIO, KafkaSSLTransport):  # type: ignore[misc]
    """TLS sockets: receives into large buffers; OpenSSL has no gathering send, so requests are joined."""

    _short_means_empty = False
    #: OpenSSL may have taken all but the last byte of a record from the kernel, which then no longer counts it.
    _held_bytes = _TLS_RECORD_BYTES

    async def handshake(self, timeout_at: float | None = None) -> None:
        """The TLS handshake. Raises KafkaTimeoutError after ``timeout_at`` (monotonic seconds), OSError if refused."""
        while True:
            try:
                self._sock.do_handshake()
                return
            except ssl.SSLWantReadError:
                await self._net.wait_read(self._sock, timeout_at)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(self._sock, timeout_at)

    def verified_chain(self) -> list[bytes]:
        """The server's certificate, then each that signed the one before, the root authority's last, as DER."""
        # Public from Python 3.13 on; the object below has had it since 3.10.
        return [one.public_bytes(_ENCODING_DER) for one in self._sock._sslobj.get_verified_chain()]

    def close(self) -> None:
        """End the connection when all was sent."""
        self.flush()
        super().close()

    def _join(self) -> None:
        self._write_buffer = deque(self._pieces(self._write_buffer))

    def _pieces(self, buffers: Iterable[Any]) -> Iterable[Any]:
        """Buffers joined into full TLS records: each send costs at least a system call and a record, and a batch comes
        as a short header and its body. Large buffers are cut, not copied, so that progress shows while a slow link
        takes them."""
        some: list[Any] = []
        size = 0
        for buffer in buffers:
            if len(buffer) >= _TLS_SEND_BYTES:
                if size:
                    yield from _cut_up(b"".join(some))
                    some, size = [], 0
                yield from _cut_up(buffer)
                continue
            some.append(buffer)
            size += len(buffer)
            if size >= _TLS_SEND_BYTES:
                joined = memoryview(b"".join(some))
                yield joined[:_TLS_SEND_BYTES]
                some, size = [joined[_TLS_SEND_BYTES:]], size - _TLS_SEND_BYTES
        if size:
            yield from _cut_up(b"".join(some))

    def _send_some(self) -> None:
        pending = self._write_buffer
        sent = int(self._sock.send(pending[0]))
        self.taken_bytes += sent
        self._waiting_bytes -= sent
        if sent == len(pending[0]):
            pending.popleft()
        else:
            pending[0] = pending[0][sent:]

    abort = KafkaSSLTransport.abort
    _write_to_sock = KafkaSSLTransport._write_to_sock
