"""Where one run starts reading, when that is not simply where the last one ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from srm_common.errors import ConfigError


class StartKind(StrEnum):
    COMMITTED = "committed"
    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class StartPosition:
    """``committed`` goes on at the committed offset (``auto.offset.reset`` where there is none); the others
    apply to every partition of the run once, whatever was committed. ``timestamp_ms`` is UTC, milliseconds
    since 1970."""

    kind: StartKind = StartKind.COMMITTED
    timestamp_ms: int | None = None

    @classmethod
    def parse(cls, text: str | StartPosition) -> StartPosition:
        """Read ``committed``, ``earliest``, ``latest``, ``timestamp:<milliseconds>`` or ``timestamp:<ISO
        8601>``.

        A time without a zone is UTC. Raises :class:`ConfigError`.
        """
        if isinstance(text, StartPosition):
            return text
        word, _, rest = text.strip().partition(":")
        try:
            kind = StartKind(word)
        except ValueError:
            raise _not_a_start(text) from None
        if kind is not StartKind.TIMESTAMP:
            if rest:
                raise _not_a_start(text)
            return cls(kind)
        if rest.isdecimal():
            return cls(kind, int(rest))
        try:
            moment = datetime.fromisoformat(rest)
        except ValueError:
            raise _not_a_start(text) from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return cls(kind, round(moment.timestamp() * 1000))

    def __str__(self) -> str:
        return self.kind.value if self.timestamp_ms is None else f"{self.kind.value}:{self.timestamp_ms}"


def _not_a_start(text: str) -> ConfigError:
    return ConfigError(
        f"'{text}' is not a start position; use committed, earliest, latest, timestamp:<milliseconds since "
        f"1970> or timestamp:<ISO 8601 time>"
    )
