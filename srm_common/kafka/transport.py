"""kafka-python's connections with a transport made for large frames.

The library receives 4 KB at a time, joins the pieces, and encodes requests into one buffer. Here a response is
received straight into one buffer (for Fetch, a leased one that is used again), and a request may be a list of
buffers, sent by ``sendmsg``. Everything else (bootstrap, TLS and SASL handshakes, re-authentication, back-off,
version negotiation, time-outs, throttling) stays the library's.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections import deque
from typing import Any

import kafka.errors as Errors
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

#: The kernel wakes us when this much of a large frame has arrived: waking for every piece costs 40 % more CPU.
_WAKE_BYTES = 1 << 20
#: Linux takes at most 1024 buffers in one ``sendmsg`` (``UIO_MAXIOV``).
_MOST_BUFFERS = 1024
_LARGEST_FRAME = (1 << 31) - 1
_FRAME = struct.Struct(">i")
#: Small frames are received together into this much room.
_STAGING_BYTES = 64 << 10


class _FrameReading:
    """Receives frame by frame; shared by the plain and the TLS transport.

    Small frames come several at a time through a staging buffer; the rest of a large one is received where it stays.
    """

    _net: Any
    _sock: Any
    _protocol: Any
    _read: bool
    _closed: bool
    last_read: float
    _wake_bytes = 1
    #: Whether a short read means that the kernel has nothing more (TLS keeps records of its own back).
    _short_means_empty = True

    async def _read_from_sock(self) -> None:
        staging = memoryview(bytearray(_STAGING_BYTES))
        filled = 0
        large: memoryview | None = None
        got = 0
        while self._read and not self._closed:
            await self._net.wait_read(self._sock)
            delivered = False
            try:
                while True:
                    room = staging[filled:] if large is None else large[got:]
                    try:
                        count = int(self._sock.recv_into(room))
                    except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                        break
                    if not count:
                        if delivered:  # whoever waits for that answer sees it before the end of the connection
                            break
                        raise Errors.KafkaConnectionError("socket disconnected")
                    short = count < len(room)
                    frames: list[memoryview] = []
                    if large is None:
                        frames, filled, large, got = self._cut(staging, filled + count)
                    else:
                        got += count
                    if large is not None and got == len(large):
                        frames.append(large)
                        large = None
                        self._wake_at(1)
                    if frames:
                        self.last_read = time.monotonic()
                        delivered = True
                        for frame in frames:
                            if self._protocol is not None:
                                self._protocol.data_received(frame)
                        del frames
                        if self._closed or self._protocol is None:
                            return
                    if short and self._short_means_empty:
                        break
                if large is not None:
                    self._wake_at(min(len(large) - got, _WAKE_BYTES))
            except OSError as error:
                self.abort(error=Errors.KafkaConnectionError(error))
                return
            except Errors.KafkaError as error:
                self.abort(error=error)
                return

    def _cut(self, staging: memoryview, filled: int) -> tuple[list[memoryview], int, memoryview | None, int]:
        """Whole frames out of the staging buffer: (frames, bytes left in it, started large frame, bytes it has).

        Frames are copied: they are small, and the buffer is used again at once.
        """
        frames: list[memoryview] = []
        at = 0
        while filled - at >= _FRAME.size:
            (size,) = _FRAME.unpack_from(staging, at)
            if not 0 <= size <= _LARGEST_FRAME:
                raise Errors.InvalidReceiveError(f"Invalid frame length: {size}")
            begin, end = at + _FRAME.size, at + _FRAME.size + size
            if end > filled and size <= _STAGING_BYTES // 2:
                break
            # Buffers are handed out in the order of the requests.
            frame = self._protocol.parser.buffer_for(size, len(frames))
            have = min(end, filled) - begin
            frame[:have] = staging[begin : begin + have]
            if have < size:
                return frames, 0, frame, have
            frames.append(frame)
            at = end
        left = filled - at
        if at and left:
            staging[:left] = bytes(staging[at:filled])
        return frames, left, None, 0

    def _wake_at(self, size: int) -> None:
        """Ask the kernel to report the socket readable only from ``size`` bytes on."""

    def abort(self, error: Exception | None = None) -> None:
        raise AssertionError("the library's transport class comes first")


class FrameTransport(_FrameReading, KafkaTCPTransport):  # type: ignore[misc]
    """Plain sockets: receives into large buffers, sends lists of buffers at once."""

    _writing: bool

    def write(self, data: Any) -> None:
        """Send one buffer, or a list of them; what the kernel does not take at once is queued."""
        if not self._write or self._closed:
            raise RuntimeError("Transport closed for writes")
        self._write_buffer.extend(data if isinstance(data, list) else [data])
        if self._writing:
            return
        _sent, error = self._sock_send()
        self.last_write = time.monotonic()
        if error is not None:
            # Not from inside the caller, who has yet to note that it waits for an answer.
            self._net.call_soon(lambda: self.abort(error=error))
        elif self._write_buffer:
            self._writing = True
            self._write_task = self._net.call_soon(self._write_to_sock)

    def _wake_at(self, size: int) -> None:
        if size != self._wake_bytes:
            self._wake_bytes = size
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)

    def _sock_send(self) -> tuple[int, Exception | None]:
        if self._sock is None:
            return 0, Errors.KafkaConnectionError("Connection closed during send")
        pending: deque[Any] = self._write_buffer
        total = 0
        while pending:
            some = [pending[i] for i in range(min(len(pending), _MOST_BUFFERS))]
            try:
                sent = self._sock.sendmsg(some)
            except (BlockingIOError, InterruptedError):
                return total, None
            except OSError as error:
                return total, Errors.KafkaConnectionError(error)
            total += sent
            while pending and sent >= len(pending[0]):
                sent -= len(pending.popleft())
            if sent:
                pending[0] = memoryview(pending[0])[sent:]
        return total, None

    abort = KafkaTCPTransport.abort


class FrameTlsTransport(_FrameReading, KafkaSSLTransport):  # type: ignore[misc]
    """TLS sockets: receives into large buffers; OpenSSL has no gathering send."""

    _short_means_empty = False

    def write(self, data: Any) -> None:
        """Queue one buffer, or a list of them."""
        self.writelines(data if isinstance(data, list) else [data])

    def writelines(self, list_of_data: Any) -> None:
        """Queue buffers; views keep partial sends free of copies."""
        super().writelines([memoryview(data) for data in list_of_data])

    abort = KafkaSSLTransport.abort
