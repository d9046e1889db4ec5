"""Answers of brokers, as connections take them: whatever they hold, a connection ends by an error of the protocol.

``seeds/answers.json`` has frames that were received in runs, by request and version.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from srm_common.kafka.client.frames import FrameProtocol, _decode_fetch, _decode_produce
from srm_common.kafka.client.library import Errors, messages
from tests.fuzz.target import Target

_FRAMES: Mapping[str, Sequence[str]] = json.loads((Path(__file__).parent / "seeds/answers.json").read_text())
_RAW: Mapping[str, Callable[[bytes | memoryview], Any]] = {"RawFetch": _decode_fetch, "RawProduce": _decode_produce}


def _decoder(kind: str, version: int) -> Callable[[bytes | memoryview], Any]:
    if kind in _RAW:
        return _RAW[kind]
    _, answer = messages()[kind.removesuffix("Request")]
    return lambda frame: answer[version].decode(frame, header=True)


def _taken(decode: Callable[[bytes | memoryview], Any]) -> Callable[[bytes], None]:
    """As the answer that a connection waits for."""

    def read(data: bytes) -> None:
        protocol = FrameProtocol(client_id="srm")
        protocol._decoders.append((int.from_bytes(data[:4], "big", signed=True), None, decode, 0))
        protocol.receive(data)

    return read


TARGETS = tuple(
    Target(
        f"answer-{name.replace(' ', '-')}",
        [b64decode(frame) for frame in frames],
        _taken(_decoder(name.split()[0], int(name.split()[1]))),
        (Errors.KafkaProtocolError,),
        keep=4,
    )
    for name, frames in _FRAMES.items()
)
