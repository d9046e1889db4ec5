"""Requests to bytes and answers to objects by the library's compiled functions, without its objects for headers.

The library makes an object for each header, and encodes or decodes it field by field, which takes half of the CPU of a
small request.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from srm_common.kafka.client.library import ApiMessage, ApiVersionsRequest, EncodeBufferPool

#: Makes an object of the frame of an answer, without its length.
Decoder = Callable[[bytes | memoryview], Any]
_Encode = Callable[[Any, Any], None]
_Decode = Callable[[memoryview, int], tuple[Any, int]]

#: Length, API key, version and correlation id; then the client's id, whose length has two bytes whatever the version.
_HEAD, _LENGTH, _SIZE = struct.Struct(">ihhi"), struct.Struct(">h"), struct.Struct(">i")
_CORRELATION_BYTES = 4
#: An empty set of tags (KIP-482), which ends the headers of flexible versions.
_NO_TAGS = b"\0"
#: How many answers to ApiVersions are remembered: those of the brokers of a few clusters, in up to two versions each.
_MOST_VERSIONS = 16

#: The library makes encoders, decoders and classes of versions when they are first used, and two threads that do so at
#: the same time leave decoders behind that fail from then on ("weakly-referenced object no longer exists").
_LIBRARY = threading.Lock()


def encoded(request: Any, correlation_id: int, client_id: str) -> bytes | bytearray:
    """The frame of a request of the library, with its length.

    Raises:
        ValueError: it has no version.
    """
    kind, version = type(request), request.API_VERSION
    head, encode = _ENCODERS.get((kind, version)) or _encoder(kind, version)
    if encode is None:
        with _LIBRARY:
            request.with_header(correlation_id=correlation_id, client_id=client_id)
            return request.encode(framed=True, header=True)  # type: ignore[no-any-return]
    name = client_id.encode()
    begin = _HEAD.pack(0, *head[:2], correlation_id) + _LENGTH.pack(len(name)) + name + head[2]
    with EncodeBufferPool.acquire() as out:
        out.ensure(len(begin))
        out.buf[: len(begin)] = begin
        out.pos = len(begin)
        encode(request, out)
        _SIZE.pack_into(out.buf, 0, out.pos - _SIZE.size)
        return out.result()  # type: ignore[no-any-return]


def request_part(kind: Any, **fields: Any) -> Any:
    """A part of a request. The library's constructor goes through the schema, which takes most of the time of a request
    for many partitions.

    Args:
        kind: the part's class in the library.
        fields: all fields of the version that is sent, except tagged ones.

    Raises:
        AttributeError: names a field that the part does not have.
    """
    made = object.__new__(kind)
    made._version = made.tags = made.unknown_tags = None
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def answer_decoder(request: Any) -> Decoder:
    """What decodes the answer to a request of the library; raises ValueError, IndexError, TypeError, struct.error,
    OverflowError, AssertionError or MemoryError for other bytes."""
    key = type(request), request.API_VERSION
    return _DECODERS.get(key) or _decoder(request, key)


def body_decoder(kind: Any, version: int) -> _Decode:
    """What decodes a message of one of the library's classes from an index of some bytes on: (object, end)."""
    found = _BODIES.get((kind, version))
    if found is None:
        with _LIBRARY:
            flexible = kind.flexible_version_q(version)
            found = kind._struct.compiled_decode_from(version, compact=flexible, tagged=flexible, data_class=kind)
        _BODIES[kind, version] = found
    return found


#: (key, version and end of the header, what encodes the fields), None where the class encodes in its own way.
_ENCODERS: dict[tuple[type, int], tuple[tuple[int, int, bytes], _Encode | None]] = {}
_DECODERS: dict[tuple[type, int], Decoder] = {}
_BODIES: dict[tuple[Any, int], _Decode] = {}


def _encoder(kind: Any, version: int | None) -> tuple[tuple[int, int, bytes], _Encode | None]:
    if version is None:
        raise ValueError(f"a {kind.__name__} without a version")
    found: tuple[tuple[int, int, bytes], _Encode | None] = (0, version, b""), None
    if issubclass(kind, ApiMessage) and kind.encode is ApiMessage.encode:
        with _LIBRARY:
            flexible = kind.flexible_version_q(version)
            encode = kind._struct.compiled_encode_into(version, compact=flexible, tagged=flexible)
            found = (kind.API_KEY, version, _NO_TAGS * flexible), encode
    _ENCODERS[kind, version] = found
    return found


def _decoder(request: Any, key: tuple[type, int]) -> Decoder:
    with _LIBRARY:
        request.with_header()
        response = request.header.get_response_class()
    if response is None:
        raise ValueError(f"the library knows no answer to {key[0].__name__} in version {key[1]}")

    def by_library(frame: bytes | memoryview) -> Any:
        with _LIBRARY:
            return response.decode(frame, header=True)

    if not isinstance(request, ApiMessage):
        return by_library
    version = key[1]
    if isinstance(request, ApiVersionsRequest):
        # Every connection sends it, and the answer has sixty parts.

        @lru_cache(maxsize=_MOST_VERSIONS)
        def versions(body: bytes) -> Any:
            with _LIBRARY:
                return response.decode(body)

        def found(frame: bytes | memoryview) -> Any:
            return versions(bytes(frame[_CORRELATION_BYTES:]))

    else:
        kind = response[None]
        body, flexible = body_decoder(kind, version), kind.flexible_version_q(version)

        def found(frame: bytes | memoryview) -> Any:
            if not flexible:
                return body(memoryview(frame), _CORRELATION_BYTES)[0]
            if frame[_CORRELATION_BYTES]:
                return by_library(frame)
            return body(memoryview(frame), _CORRELATION_BYTES + 1)[0]

    _DECODERS[key] = found
    return found
