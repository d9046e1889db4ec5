"""Spans of time, for people."""

from __future__ import annotations


def duration(milliseconds: float) -> str:
    """In the largest whole unit: "0 s", "59 s", "12 min", "3 h", "2 d"."""
    seconds = max(0, int(milliseconds // 1000))
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def latency(milliseconds: int) -> str:
    """To the tenth of a second, and negative where clocks differ: "850 ms", "12.3 s"."""
    return f"{milliseconds} ms" if abs(milliseconds) < 1000 else f"{milliseconds / 1000:.1f} s"
