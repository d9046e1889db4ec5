"""Java's ``SimpleDateFormat`` for timestamps in text: lenient, in UTC, with English names, in Java's mixed calendar.

Not carried out: weeks (``Y``, ``w``, ``W``, ``F``), and names of time zones other than UTC and GMT.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import lru_cache

MILLIS_PER_DAY = 86_400_000
_LETTERS = "GyMLdDEuaHkKhmsSzZX"
_WEEKS = "YwWF"
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NUMBER = re.compile(r"-?\d+")
#: The first day of the Gregorian calendar, 15 October 1582, in days since the epoch.
_CUTOVER = -141_427
_MINUTE, _HOUR = 60_000, 3_600_000
#: Of a number of 64 bits, at most.
_LONG_DIGITS = 19


class PatternError(ValueError):
    """A pattern that cannot be used."""


class TextMismatch(ValueError):
    """A text that does not match its pattern."""


def days_from(year: int, month: int, day: int) -> int:
    """Days since the epoch; months from 1, which may be any number, as may days."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    gregorian = _days(year, month, True) + day - 1
    return gregorian if gregorian >= _CUTOVER else _days(year, month, False) + day - 1


def _days(year: int, month: int, gregorian: bool) -> int:
    """Of the first of the month; years begin in March."""
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    leaps = year // 4 - (year // 100 - year // 400 if gregorian else 2)
    return year * 365 + leaps + (153 * month + 2) // 5 - 719_468


def date_of(days: int) -> tuple[int, int, int]:
    """Year, month and day."""
    if days >= _CUTOVER:
        era, rest = divmod(days + 719_468, 146_097)
        year_of_era = (rest - rest // 1460 + rest // 36_524 - rest // 146_096) // 365
        day_of_year = rest - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
        year = year_of_era + era * 400
    else:
        four, rest = divmod(days + 719_470, 1461)
        year_of_four = min(rest // 365, 3)
        day_of_year = rest - 365 * year_of_four
        year = four * 4 + year_of_four
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    return (year + 1, month - 9, day) if month >= 10 else (year, month + 3, day)


@dataclass(frozen=True, slots=True)
class DatePattern:
    """A pattern as ``SimpleDateFormat`` takes it.

    Raises:
        PatternError: there is a letter that means nothing, or nothing here, or a quote that is not closed.
    """

    pattern: str

    def __post_init__(self) -> None:
        _compiled(self.pattern)

    def format(self, millis: int) -> str:
        """A time in milliseconds since the epoch."""
        days, of_day = divmod(millis, MILLIS_PER_DAY)
        year, month, day = date_of(days)
        return "".join(
            letter if not count else _formatted(letter, count, days, (year, month, day), of_day)
            for letter, count in _compiled(self.pattern)
        )

    def parse(self, text: str) -> int:
        """Milliseconds since the epoch. What follows the last field is not looked at, as in Java.

        Raises:
            TextMismatch: the text does not begin as the pattern has it.
        """
        return _Parser(_compiled(self.pattern), text).millis()


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> tuple[tuple[str, int], ...]:
    """Letters with their number, and literal text with 0."""
    parts: list[tuple[str, int]] = []
    literal, at = "", 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "'":
            end = pattern.find("'", at + 1)
            if end == at + 1:
                literal, at = literal + "'", at + 2
                continue
            quoted = ""
            while end >= 0 and pattern[end + 1 : end + 2] == "'":
                quoted, at = quoted + pattern[at + 1 : end + 1], end + 1
                end = pattern.find("'", at + 1)
            if end < 0:
                raise PatternError("a quote is not closed")
            literal, at = literal + quoted + pattern[at + 1 : end], end + 1
            continue
        if not (letter.isascii() and letter.isalpha()):
            literal, at = literal + letter, at + 1
            continue
        if letter not in _LETTERS:
            why = "stands for weeks, which are not supported" if letter in _WEEKS else "means nothing in a pattern"
            raise PatternError(f"'{letter}' {why}")
        count = len(pattern) - at - len(pattern[at:].lstrip(letter))
        if letter == "X" and count > 3:
            raise PatternError("there are more than three X in a row")
        parts += [(literal, 0)] if literal else []
        parts.append((letter, count))
        literal, at = "", at + count
    return (*parts, (literal, 0)) if literal else tuple(parts)


def _formatted(letter: str, count: int, days: int, date: tuple[int, int, int], of_day: int) -> str:
    year, month, day = date
    hour = of_day // _HOUR
    match letter:
        case "G":
            return "AD" if year > 0 else "BC"
        case "y":
            shown = year if year > 0 else 1 - year
            return f"{shown % 100:02d}" if count == 2 else str(shown).zfill(count)
        case "M" | "L" if count >= 3:
            return _MONTHS[month - 1] if count > 3 else _MONTHS[month - 1][:3]
        case "E":
            name = _DAYS[(days + 3) % 7]
            return name if count > 3 else name[:3]
        case "a":
            return "AM" if hour < 12 else "PM"
        case "z":
            return "Coordinated Universal Time" if count > 3 else "UTC"
        case "Z":
            return "+0000"
        case "X":
            return "Z"
    numbers = {
        "M": month,
        "L": month,
        "d": day,
        "D": days - days_from(year, 1, 1) + 1,
        "u": (days + 3) % 7 + 1,
        "H": hour,
        "k": hour or 24,
        "K": hour % 12,
        "h": hour % 12 or 12,
        "m": of_day // _MINUTE % 60,
        "s": of_day // 1000 % 60,
        "S": of_day % 1000,
    }
    return str(numbers[letter]).zfill(count)


class _Parser:
    """One text on its way through a pattern (``SimpleDateFormat.subParse``, ``CalendarBuilder.establish``)."""

    def __init__(self, parts: tuple[tuple[str, int], ...], text: str) -> None:
        self._text = text
        self._at = 0
        #: In the order in which they were set: what comes later wins.
        self._fields: dict[str, int] = {}
        self._ambiguous = False
        for number, (letter, count) in enumerate(parts):
            following = parts[number + 1] if number + 1 < len(parts) else None
            if count:
                self._field(letter, count, following)
            elif text.startswith(letter, self._at):
                self._at += len(letter)
            else:
                raise TextMismatch

    def millis(self) -> int:
        moment = self._moment()
        if self._ambiguous and moment < _century_start():
            self._fields["y"] += 100
            moment = self._moment()
        return moment

    def _moment(self) -> int:
        fields = self._fields
        if not fields.keys().isdisjoint("Eu") and fields.keys().isdisjoint("dD"):
            raise TextMismatch
        year = fields.get("y", 1970)
        if fields.get("G") == 0:
            year = 1 - year
        order = list(fields)
        if "D" in fields and ("d" not in fields or order.index("D") > order.index("d")):
            days = days_from(year, 1, fields["D"]) if year != 1582 else _days(year, 1, False) + fields["D"] - 1
        else:
            days = days_from(year, fields.get("M", 1), fields.get("d", 1))
        hours = fields.get("H")
        half = order.index("h") if "h" in fields else -1
        half = max(half, order.index("a")) if "a" in fields and half >= 0 else -1
        if hours is None or half > order.index("H"):
            hours = fields.get("h", 0) + 12 * fields.get("a", 0)
        of_day = hours * _HOUR + fields.get("m", 0) * _MINUTE + fields.get("s", 0) * 1000 + fields.get("S", 0)
        return days * MILLIS_PER_DAY + of_day - fields.get("Z", 0)

    def _field(self, letter: str, count: int, following: tuple[str, int] | None) -> None:
        start = self._at
        while start < len(self._text) and self._text[start] in " \t":
            start += 1
        if start >= len(self._text):
            raise TextMismatch
        if letter in "GEa" or (letter in "ML" and count >= 3):
            self._name(letter)
        elif letter in "zZX":
            self._zone(letter, count, start)
        else:
            self._number(letter, count, start, following)

    def _set(self, field: str, value: int) -> None:
        self._fields.pop(field, None)
        self._fields[field] = value

    def _number(self, letter: str, count: int, start: int, following: tuple[str, int] | None) -> None:
        end = len(self._text)
        if following is not None and following[1] and (following[0] not in "MLGEazZX" or _short_month(following)):
            end = self._at + count
            if end > len(self._text):
                raise TextMismatch
        found = _NUMBER.match(self._text, start, end)
        if found is None:
            raise TextMismatch
        value, at = _java_int(found[0]), found.end()
        if value < 0 and following is not None and not following[1] and following[0].startswith("-"):
            beyond = at < len(self._text) and self._text[at] != "-"
            value, at = (-value, at - 1) if beyond else (value, at)
        digits = self._text[start : start + 2]
        if letter == "y" and count <= 2 and at - start == 2 and digits.isdecimal():
            first = _this_year() - 80
            self._ambiguous = value == first % 100
            value += first // 100 * 100 + (100 if value < first % 100 else 0)
        value = 0 if (letter, value) in (("k", 24), ("h", 12)) else value
        self._set({"L": "M", "k": "H", "K": "h"}.get(letter, letter), value)
        self._at = at

    def _name(self, letter: str) -> None:
        names: dict[str, int]
        if letter in "ML":
            names = {name: number for number, name in enumerate(_MONTHS, 1)}
        elif letter == "E":
            names = {name: number for number, name in enumerate(_DAYS, 1)}
        else:
            names = {"BC": 0, "AD": 1} if letter == "G" else {"AM": 0, "PM": 1}
        for name in [*names]:
            names[name[:3]] = names[name]
        text = self._text[self._at :].lower()
        length, value = max(
            ((len(name), value) for name, value in names.items() if text.startswith(name.lower())), default=(0, 0)
        )
        if not length:
            raise TextMismatch
        self._set("M" if letter == "L" else letter, value)
        self._at += length

    def _zone(self, letter: str, count: int, start: int) -> None:
        text = self._text
        if letter == "X":
            if text[start] == "Z":
                self._set("Z", 0)
                self._at = start + 1
            else:
                self._offset(start, count, count == 3)
        elif text[start] in "+-":
            self._offset(start, 0, False)
        elif text[self._at : self._at + 3].upper() == "GMT":
            self._at += 3
            if text[self._at : self._at + 1] in ("+", "-"):
                self._offset(self._at, 0, True)
            else:
                self._set("Z", 0)
        else:
            for name in ("coordinated universal time", "utc"):
                if text[start:].lower().startswith(name):
                    self._set("Z", 0)
                    self._at = start + len(name)
                    return
            raise TextMismatch

    def _offset(self, start: int, count: int, colon: bool) -> None:
        hours = r"\d{2}" if count or not colon else r"\d{1,2}"
        minutes = "" if count == 1 else r":(\d\d)" if colon else r"(\d\d)"
        found = re.compile(f"([+-])({hours}){minutes}", re.ASCII).match(self._text, start)
        if found is None or int(found[2]) > 23 or (minutes and int(found[3]) > 59):
            raise TextMismatch
        offset = int(found[2]) * _HOUR + (int(found[3]) * _MINUTE if minutes else 0)
        self._set("Z", offset if found[1] == "+" else -offset)
        self._at = found.end()


def _java_int(text: str) -> int:
    """What Java makes of a number (``DecimalFormat``, then ``Number.intValue``): the lower 32 bits of one that fits
    into 64, the nearest of 32 bits to any other."""
    negative = text.startswith("-")
    digits = text.removeprefix("-").lstrip("0")
    # Python refuses to read thousands of digits.
    number = int(digits[:_LONG_DIGITS] or 0) * (-1 if negative else 1)
    if len(digits) <= _LONG_DIGITS and -(1 << 63) <= number < 1 << 63:
        return (number + (1 << 31)) % (1 << 32) - (1 << 31)
    return -(1 << 31) if negative else (1 << 31) - 1


def _short_month(part: tuple[str, int]) -> bool:
    return part[0] in "ML" and part[1] <= 2


def _this_year() -> int:
    return date_of(int(time.time()) // 86_400)[0]


def _century_start() -> int:
    now = int(time.time() * 1000)
    year, month, day = date_of(now // MILLIS_PER_DAY)
    return days_from(year - 80, month, day) * MILLIS_PER_DAY + now % MILLIS_PER_DAY
