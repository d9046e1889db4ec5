"""What the demo writes: topics that differ in codec, shape and speed, as real ones do."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Headers = list[tuple[str, str | bytes | None]]
Record = tuple[bytes | None, bytes | None, Headers]

CITIES = ("Aarhus", "Bergen", "Cadiz", "Dresden", "Esbjerg", "Ferrara", "Gdansk", "Haarlem")


@dataclass(frozen=True)
class DemoTopic:
    """One topic: ``make`` gives a record, ``per_second`` is how many are written. ``codec`` is the producer's."""

    name: str
    about: str
    partitions: int
    codec: str
    per_second: int
    make: Callable[[random.Random, int], Record]
    transactional: bool = False
    config: Mapping[str, str] = field(default_factory=dict)


def _order(dice: random.Random, number: int) -> Record:
    lines = [
        {"article": dice.randrange(10_000), "count": dice.randrange(1, 9), "price": dice.randrange(100, 99_999) / 100}
        for _ in range(dice.randrange(2, 12))
    ]
    order = {"id": number, "customer": f"c-{dice.randrange(5_000)}", "ship_to": dice.choice(CITIES), "lines": lines}
    return f"order-{number}".encode(), json.dumps(order).encode(), [("content-type", "application/json")]


def _payment(dice: random.Random, number: int) -> Record:
    payment = {"id": number, "order": dice.randrange(max(1, number)), "cents": dice.randrange(100, 1_000_000)}
    return f"c-{dice.randrange(5_000)}".encode(), json.dumps(payment).encode(), []


def _click(dice: random.Random, number: int) -> Record:
    return None, f"/{dice.choice(CITIES).lower()}/{dice.randrange(1_000)}?session={dice.getrandbits(64):x}".encode(), []


def _profile(dice: random.Random, number: int) -> Record:
    key = f"c-{dice.randrange(500)}".encode()
    # A tombstone now and then: compaction then leaves holes in the log.
    value = None if dice.random() < 0.05 else json.dumps({"city": dice.choice(CITIES), "visits": number}).encode()
    return key, value, []


def _reading(dice: random.Random, number: int) -> Record:
    value = struct.pack(">qdd", number, dice.gauss(20, 3), dice.gauss(55, 8))
    return struct.pack(">i", dice.randrange(64)), value, [("unit", b"C"), ("unit", b"%"), ("calibrated", None)]


def _return(dice: random.Random, number: int) -> Record:
    value = {"id": number, "order": dice.randrange(max(1, number)), "why": dice.choice(("late", "broken", "too small"))}
    return f"return-{number}".encode(), json.dumps(value).encode(), []


def _audit(dice: random.Random, number: int) -> Record:
    return b"", f"{number} {dice.choice(('login', 'logout', 'read', 'write'))} u{dice.randrange(200)}".encode(), []


TOPICS = (
    DemoTopic("orders", "JSON of about 500 bytes", 4, "lz4", 150, _order),
    DemoTopic("payments", "in transactions, one in ten aborted", 2, "zstd", 40, _payment, transactional=True),
    DemoTopic("clicks", "short lines without a key", 6, "snappy", 600, _click),
    DemoTopic(
        "profiles",
        "compacted, with tombstones",
        2,
        "none",
        50,
        _profile,
        config={"cleanup.policy": "compact", "segment.ms": "10000", "min.cleanable.dirty.ratio": "0.05"},
    ),
    DemoTopic("sensors", "binary, with repeated and empty headers", 3, "gzip", 80, _reading),
    DemoTopic(
        "audit", "stamped by the broker", 1, "none", 10, _audit, config={"message.timestamp.type": "LogAppendTime"}
    ),
)
#: Written at west, for the flow that goes back.
RETURNS = DemoTopic("returns", "what is returned to the shop", 2, "lz4", 40, _return)
