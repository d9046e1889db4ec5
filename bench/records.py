"""Records that look like what devices send: JSON, every one different, three to four times smaller when compressed."""

from __future__ import annotations

import random

KEY_BYTES = 16

_UNITS = (
    ("temperature", -20, 90, "C"),
    ("pressure", 1, 16, "bar"),
    ("flow", 0, 900, "l/h"),
    ("vibration", 0, 8, "mm/s"),
    ("current", 0, 63, "A"),
    ("humidity", 0, 100, "%"),
)
_SITES = ("berlin", "madrid", "oslo", "porto", "gdansk")
_WORDS = [
    "pump",
    "valve",
    "started",
    "stopped",
    "after",
    "manual",
    "check",
    "pressure",
    "above",
    "limit",
    "operator",
    "acknowledged",
    "sensor",
    "drift",
    "corrected",
    "night",
    "shift",
    "normal",
    "range",
    "restart",
    "scheduled",
    "filter",
    "replaced",
    "calibration",
    "ok",
    "network",
    "timeout",
    "retry",
]
_FIRST_TIMESTAMP_MS = 1_714_735_296_789


def key_of(number: int) -> bytes:
    """16 bytes, decimal."""
    return b"%016d" % number


def value_pool(record_bytes: int, count: int, seed: int = 1) -> list[bytes]:
    """``count`` values which with their key make ``record_bytes``; the same for the same seed.

    A pool is enough: compression looks at one batch at a time, and a batch is far smaller than the pool.
    """
    source = random.Random(seed)
    size = record_bytes - KEY_BYTES
    make = _reading if size < 400 else _report
    return [make(source, number, size) for number in range(count)]


def _reading(source: random.Random, number: int, size: int) -> bytes:
    """One measured value; about 80 bytes."""
    text = '{"id":%d,"t":%.1f,"h":%.1f,"st":"%s","ts":%d' % (  # noqa: UP031
        10**8 + number, source.uniform(10, 90), source.uniform(10, 99),
        source.choice(("ok", "ok", "low", "high")), _FIRST_TIMESTAMP_MS + number * 1000,
    )  # fmt: skip
    return _filled(source, text + ',"d":"', size)


def _report(source: random.Random, number: int, size: int) -> bytes:
    """Six readings of one device and what its operator wrote; about a kilobyte."""
    readings = ",".join(
        '{"sensor":"%s","value":%.3f,"unit":"%s","quality":%d}'  # noqa: UP031
        % (sensor, source.uniform(low, high), unit, source.randrange(100))
        for sensor, low, high, unit in _UNITS
    )
    text = (
        '{"id":"%016x","ts":%d,"site":"%s-%02d","device":{"serial":"SN-%08d","model":"FX-%d",'  # noqa: UP031
        '"firmware":"4.%d.%d"},"readings":[%s],"status":"%s","operator":"user%05d@example.org","note":"'
    ) % (
        source.getrandbits(64), _FIRST_TIMESTAMP_MS + number * 1000,
        source.choice(_SITES), source.randrange(40), source.randrange(10**8), source.randrange(100, 900, 50),
        source.randrange(9), source.randrange(40), readings, source.choice(("ok", "ok", "ok", "warning", "error")),
        source.randrange(10**5),
    )  # fmt: skip
    return _filled(source, text, size)


def _filled(source: random.Random, text: str, size: int) -> bytes:
    """Closes the JSON text after words that bring it to exactly ``size`` bytes."""
    room = size - len(text) - 2
    if room < 0:
        raise ValueError(f"{size} bytes are too few for this record; it needs {len(text) + 2}")
    words: list[str] = []
    length = 0
    while length < room:
        word = source.choice(_WORDS) + " "
        words.append(word)
        length += len(word)
    return (text + "".join(words)[:room] + '"}').encode()
