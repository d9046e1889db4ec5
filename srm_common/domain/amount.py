"""Amounts and times in words: an amount that may be known only in part, sums of amounts, durations, moments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Amount:
    """A sum over ``parts`` partitions or other parts: ``least`` to ``known_most``, plus an unknown number in
    ``unknown`` of the parts.

    A sum with an unknown part has no upper limit: ``most`` is None then, so that the known part is not mistaken for the
    whole. The text always says which of these it is.
    """

    least: int = 0
    known_most: int = 0
    parts: int = 0
    unknown: int = 0

    def __post_init__(self) -> None:
        if not (0 <= self.least <= self.known_most and 0 <= self.unknown <= self.parts):
            raise ValueError(f"this is not an amount: {self!r}")

    @classmethod
    def exactly(cls, number: int) -> Self:
        return cls(number, number, 1)

    @classmethod
    def at_most(cls, number: int) -> Self:
        return cls(0, number, 1)

    @classmethod
    def at_least(cls, number: int) -> Self:
        return cls.exactly(number).and_more()

    @classmethod
    def not_known(cls) -> Self:
        return cls.at_least(0)

    @classmethod
    def of(cls, number: int | None) -> Self:
        """Exactly that many; None: unknown."""
        return cls.not_known() if number is None else cls.exactly(number)

    @classmethod
    def sum(cls, amounts: Iterable[Amount]) -> Self:
        least = most = parts = unknown = 0
        for amount in amounts:
            least, most = least + amount.least, most + amount.known_most
            parts, unknown = parts + amount.parts, unknown + amount.unknown
        return cls(least, most, parts, unknown)

    @property
    def most(self) -> int | None:
        """The upper limit; None where there is none."""
        return None if self.unknown else self.known_most

    def and_more(self) -> Self:
        """With an unknown number besides, in every part."""
        return replace(self, unknown=self.parts)

    def __add__(self, other: Amount) -> Amount:
        return Amount.sum((self, other))

    def __str__(self) -> str:
        return self.text("part")

    def text(self, part: str) -> str:
        """In words; ``part`` is the noun for what was summed, in the singular."""
        least, most = self.least, self.known_most
        known = str(most) if least == most else f"{least} to {most}" if least else f"at most {most}"
        if not self.unknown:
            return known
        words = [f"at least {least}"] if least else []
        if self.parts > 1:
            where = f"all {self.parts}" if self.unknown == self.parts else f"{self.unknown} of {self.parts}"
            words.append(f"unknown in {where} {part}s")
        elif not least:
            words.append("unknown")
        if least != most or (not most and self.unknown < self.parts):
            words.append(f"besides {known}")
        return ", ".join(words)

    def short(self) -> str:
        """For a table cell: "1,234", ">=1,234", "unknown"; for a bound, its upper limit."""
        if self.unknown:
            return f">={self.least:,}" if self.least else "unknown"
        return f"{self.known_most:,}" if self.least == self.known_most else f"<={self.known_most:,}"

    def to_json(self) -> dict[str, Any]:
        """``most`` is null where there is no upper limit. The inverse of :meth:`from_json`."""
        return {
            "least": self.least,
            "most": self.most,
            "known_most": self.known_most,
            "parts": self.parts,
            "unknown": self.unknown,
        }

    @classmethod
    def from_json(cls, found: Any) -> Self:
        """Read plain values. Raises ValueError, TypeError or KeyError if they are not an amount."""
        if not isinstance(found, Mapping):
            raise TypeError(f"{found!r} is not an amount")
        return cls(*(int(found[name]) for name in ("least", "known_most", "parts", "unknown")))


#: Certainly none.
NONE = Amount.exactly(0)


def counted(number: int, noun: str) -> str:
    """``1 partition``, ``2 partitions``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(milliseconds: float) -> str:
    """In the largest whole unit: "0 s", "59 s", "12 min", "3 h", "2 d"."""
    seconds = max(0, int(milliseconds // 1000))
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def moment(milliseconds: int) -> str:
    """To the second, "2026-01-31 12:00:00 UTC". The timestamps of records may be anything: one beyond the year 9999, as
    of nanoseconds, stays a number."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"


def latency(milliseconds: int) -> str:
    """To the tenth of a second, and negative where clocks differ: "850 ms", "12.3 s"."""
    return f"{milliseconds} ms" if abs(milliseconds) < 1000 else f"{milliseconds / 1000:.1f} s"
