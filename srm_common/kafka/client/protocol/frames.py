"""Requests and responses as frames: a Fetch response in a leased buffer, a Produce request as a list of buffers."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from srm_common.kafka.client.library import Errors, KafkaProtocol
from srm_common.kafka.client.protocol.buffers import Lease
from srm_common.kafka.client.protocol.messages import Decoder, answer_decoder, encoded
from srm_common.wire.protocol import fetch, produce
from srm_common.wire.varints import Buffer

_CORRELATION = struct.Struct(">i")
#: Response header version 1: correlation id and an empty set of tags.
_HEADER_BYTES = 5

#: For answers without records: brokers accept no larger request (socket.request.max.bytes), and no answer comes near.
_LARGEST_ANSWER = 100 << 20
#: A Fetch answer holds at least one batch, however large its topic allows it to be (KIP-74).
_LARGEST_FRAME = (1 << 31) - 1
#: Room for the beginning of a large frame.
_STEP_BYTES = 1 << 20


#: What decoders, the library's too, raise for bytes that are not an answer.
_UNREADABLE = (ValueError, IndexError, struct.error, OverflowError, TypeError, AssertionError, MemoryError)


class RawProduce:
    """A Produce request whose record batches stay in the buffers they were received into."""

    API_KEY = produce.API_KEY

    def __init__(
        self,
        version: int,
        transactional_id: str | None,
        timeout_ms: int,
        topics: dict[str, list[tuple[int, Sequence[Buffer]]]],
    ) -> None:
        self.API_VERSION = version
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.topics = topics
        self.header: Any = None

    def expect_response(self) -> bool:
        """acks=all always answers."""
        return True

    def __str__(self) -> str:
        return f"RawProduce(version={self.API_VERSION}, topics={sorted(self.topics)})"


class RawFetch:
    """A Fetch request (encoded by the library) whose answer is received into ``lease`` and decoded as views. ``ids`` of
    its topics where it has these in place of names."""

    def __init__(self, request: Any, lease: Lease, ids: Mapping[str, UUID] | None = None) -> None:
        self.request = request
        self.lease = lease
        self.names = None if ids is None else {topic_id.bytes: topic for topic, topic_id in ids.items()}
        self.API_KEY = request.API_KEY

    @property
    def API_VERSION(self) -> int | None:
        """None until the connection has chosen one, where the request leaves that to it."""
        version: int | None = self.request.API_VERSION
        return version

    @API_VERSION.setter
    def API_VERSION(self, version: int) -> None:
        self.request.API_VERSION = version

    def expect_response(self) -> bool:
        """Fetch always answers."""
        return True

    def __str__(self) -> str:
        return "RawFetch"


class FrameProtocol(KafkaProtocol):  # type: ignore[misc]
    """Frames in, answers out: takes whole frames instead of pieces of a stream."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        #: Number, lease, decoder and least size of the answers that are to come.
        self._decoders: deque[tuple[int, Lease | None, Decoder, int]] = deque()

    def rename(self, client_id: str) -> None:
        """Requests go out under this name from now on."""
        self._client_id = client_id

    def send_request(self, request: Any, correlation_id: int | None = None) -> int:
        """Queue a request's bytes; remembers how its answer is to be received and decoded."""
        if isinstance(request, RawProduce):
            number = int(self._next_correlation_id())
            self.bytes_to_send += produce.encode(
                version=request.API_VERSION,
                correlation_id=number,
                client_id=self._client_id,
                transactional_id=request.transactional_id,
                timeout_ms=request.timeout_ms,
                topics=request.topics,
            )
            least = produce.answer_bytes(request.topics)
            asked = sorted((topic, part[0]) for topic, parts in request.topics.items() for part in parts)
            self._decoders.append((number, None, partial(_decode_produce, asked), least))
            return number
        if isinstance(request, RawFetch):
            number = int(self._next_correlation_id())
            self.bytes_to_send.append(encoded(request.request, number, self._client_id))
            decode = _decode_fixed_fetch
            if request.API_VERSION is None or request.API_VERSION > fetch.OLDEST_VERSION:
                decode = partial(_decode_fetch, request.names)
            self._decoders.append((number, request.lease, decode, 0))
            return number
        number = int(self._next_correlation_id() if correlation_id is None else correlation_id)
        self.bytes_to_send.append(encoded(request, number, self._client_id))
        if request.expect_response():
            self._decoders.append((number, None, answer_decoder(request), 0))
        return number

    def least_bytes(self, answers: int) -> int:
        """What the next ``answers`` to Produce take at least, with their lengths; 1 where others are among them."""
        total = 0
        for number in range(min(answers, len(self._decoders))):
            least = self._decoders[number][3]
            if not least:
                return 1
            total += least
        return max(total, 1)

    def send_bytes(self) -> list[Buffer]:
        """All queued buffers, not joined."""
        pending: list[Buffer] = self.bytes_to_send
        self.bytes_to_send: list[Buffer] = []
        return pending

    def buffer_for(self, size: int, ahead: int) -> memoryview:
        """Where a frame goes, ``ahead`` answers after the next: the lease of its Fetch, or a buffer of its own.

        A large frame gets room for its beginning, and more by :meth:`larger` when that has arrived: a length is only
        what the other side says.

        Raises:
            InvalidReceiveError: no answer to that request is so large.
        """
        if ahead >= len(self._decoders):
            raise Errors.CorrelationIdError("No in-flight-request found for server response")
        lease = self._decoders[ahead][1]
        most = _LARGEST_ANSWER if lease is None else _LARGEST_FRAME
        if not 0 <= size <= most:
            raise Errors.InvalidReceiveError(f"a frame of {size} bytes where at most {most} are possible")
        if lease is None:
            return memoryview(bytearray(min(size, _STEP_BYTES)))
        return lease.room_for(min(size, max(lease.size, _STEP_BYTES)))

    def is_copied(self, ahead: int) -> bool:
        """Whether a frame that has arrived as a whole, ``ahead`` answers after the next, needs no buffer."""
        return ahead < len(self._decoders) and self._decoders[ahead][1] is None

    def larger(self, begun: memoryview, size: int) -> memoryview:
        """More room for the next answer, a frame of ``size`` bytes of which ``begun`` is the beginning."""
        room = min(size, 2 * len(begun))
        lease = self._decoders[0][1]
        if lease is not None:
            return lease.grown(room, begun)
        whole = bytearray(room)
        whole[: len(begun)] = begun
        return memoryview(whole)

    def receive_bytes(self, frame: bytes | memoryview) -> list[tuple[int, Any]]:
        """Decode one whole frame (without its length)."""
        return [self.receive(frame)]

    def receive(self, frame: bytes | memoryview) -> tuple[int, Any]:
        """The number and the answer of one whole frame (without its length).

        Raises:
            KafkaProtocolError: it is not the answer that is to come next, or cannot be decoded.
        """
        expected, _lease, decoder, _least = self._decoders.popleft()
        try:
            (number,) = _CORRELATION.unpack_from(frame, 0)
            if number != expected:
                raise Errors.CorrelationIdError(f"Correlation IDs do not match: sent {expected}, recv {number}")
            return number, decoder(frame)
        except _UNREADABLE as error:
            raise Errors.KafkaProtocolError(f"Unable to decode response: {error!r}") from error


def _decode_fetch(names: Mapping[bytes, str] | None, frame: bytes | memoryview) -> fetch.FetchAnswer:
    return fetch.decode(memoryview(frame)[_HEADER_BYTES:], names)


def _decode_fixed_fetch(frame: bytes | memoryview) -> fetch.FetchAnswer:
    # Its header has no tags.
    return fetch.decode_fixed(memoryview(frame)[_CORRELATION.size :])


def _decode_produce(asked: list[tuple[str, int]], frame: bytes | memoryview) -> produce.ProduceAnswer:
    """Brokers name each partition of the request (``asked``, sorted). A batch whose partition a response leaves out may
    not be stored, so that the response is none."""
    answer = produce.decode(frame[_HEADER_BYTES:])
    if sorted((part.topic, part.partition) for part in answer.partitions) != asked:
        raise ValueError("the partitions of a Produce response are not those of its request")
    return answer
