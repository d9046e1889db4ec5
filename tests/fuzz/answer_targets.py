"""Answers of brokers, as connections take them: whatever they hold, a connection ends by an error of the protocol.

``seeds/answers.json`` has frames that were received in runs, by request and version.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from srm_common.kafka.client.library import Errors, messages
from srm_common.kafka.client.logins.scram import Scram
from srm_common.kafka.client.protocol.frames import _HEADER_BYTES, FrameProtocol, _decode_fetch, _decode_fixed_fetch
from srm_common.wire.protocol import produce
from tests.fuzz.target import Target

_FRAMES: Mapping[str, Sequence[str]] = json.loads((Path(__file__).parent / "seeds/answers.json").read_text())


class _EveryTopic(dict[bytes, str]):
    """A name for each id."""

    def get(self, *_: object) -> str:
        return "orders"


_RAW: Mapping[str, Callable[[bytes | memoryview], Any]] = {
    "RawFetch 11": _decode_fixed_fetch,
    "RawFetch 12": lambda frame: _decode_fetch(None if len(frame) % 2 else _EveryTopic(), frame),
    # Whatever its request was.
    "RawProduce 12": lambda frame: produce.decode(frame[_HEADER_BYTES:]),
}


def _decoder(name: str) -> Callable[[bytes | memoryview], Any]:
    if name in _RAW:
        return _RAW[name]
    kind, version = name.split()
    _, answer = messages()[kind.removesuffix("Request")]
    return lambda frame: answer[int(version)].decode(frame, header=True)


def _taken(decode: Callable[[bytes | memoryview], Any]) -> Callable[[bytes], None]:
    """As the answer that a connection waits for."""

    def read(data: bytes) -> None:
        protocol = FrameProtocol(client_id="srm")
        protocol._decoders.append((int.from_bytes(data[:4], "big", signed=True), None, decode, 0))
        protocol.receive(data)

    return read


def _logged_in(data: bytes) -> None:
    """Both messages of a broker, a line each, with the nonce that a client would have chosen for them."""
    first, _, last = data.partition(b"\n")
    login = Scram(sasl_plain_username="user", sasl_plain_password="pencil", sasl_mechanism="SCRAM-SHA-256")
    login.client.nonce = b"rOprNGfwEbeRWgbNEkqO"
    login.auth_bytes()
    # A few hundred thousand iterations are allowed, and take their time.
    if len(re.sub(rb"[^0-9]", b"", first.partition(b"i=")[2])) > 4:
        return
    login.receive(first)
    login.auth_bytes()
    login.receive(last)


#: RFC 7677, section 3.
_SCRAM = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096\n"
    b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
)
TARGETS = (
    *(
        Target(
            f"answer-{name.replace(' ', '-')}",
            [b64decode(frame) for frame in frames],
            _taken(_decoder(name)),
            (Errors.KafkaProtocolError,),
            keep=4,
        )
        for name, frames in _FRAMES.items()
    ),
    Target("scram", [_SCRAM], _logged_in, (Errors.SaslAuthenticationFailedError,)),
)
