"""When the certificates expire on which a flow's connections depend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Self

from srm_common.domain.amount import duration

DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class CertificateEnd:
    """Of all certificates that the connections to one cluster depend on, the one that ends first.

    ``ends_ms`` is its ``notAfter`` (RFC 5280, 4.1.2.5) in epoch milliseconds, None where the cluster has no TLS;
    ``holder`` says whose it is. ``complete``: all brokers took part; otherwise one that is missing may end earlier.
    """

    cluster: str
    ends_ms: int | None = None
    holder: str = ""
    complete: bool = True

    def sentence(self, now_ms: int) -> str:
        """When it ends, or ended; only where ``ends_ms`` is known."""
        assert self.ends_ms is not None
        at = datetime.fromtimestamp(self.ends_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
        left = self.ends_ms - now_ms
        when = f"ends in {duration(left)}, on {at}" if left > 0 else f"ended {duration(-left)} ago, on {at}"
        return f"{self.holder} of cluster '{self.cluster}' {when}"

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> Self:
        """From ``astuple``, even of a newer version with additional fields. Raises TypeError."""
        found = cls(*row[: len(fields(cls))])
        if not (isinstance(found.cluster, str) and isinstance(found.ends_ms, int | None)):
            raise TypeError(f"{row!r} does not report when a certificate expires")
        return found


def later_seen(before: Iterable[CertificateEnd], seen: Iterable[CertificateEnd]) -> tuple[CertificateEnd, ...]:
    """What is known after a look: a cluster that was not seen stays as it was, and so does a certificate of a broker
    that did not take part and ends earlier than what was seen."""
    known = {end.cluster: end for end in before}
    for end in seen:
        last = known.get(end.cluster)
        keep = (
            last is not None
            and last.ends_ms is not None
            and not end.complete
            and (end.ends_ms is None or last.ends_ms < end.ends_ms)
        )
        if not keep:
            known[end.cluster] = end
    return tuple(known[cluster] for cluster in sorted(known))


def first_end_ms(known: Iterable[CertificateEnd]) -> int | None:
    """When the first of them ends, in epoch milliseconds; None where there is no TLS."""
    return min((end.ends_ms for end in known if end.ends_ms is not None), default=None)


def due(known: Iterable[CertificateEnd], now_ms: int, warning_days: float) -> list[CertificateEnd]:
    """Those that have ended or end within ``warning_days``, the first one first."""
    limit = now_ms + warning_days * DAY_MS
    found = [(end.ends_ms, end) for end in known if end.ends_ms is not None and end.ends_ms <= limit]
    return [one for _, one in sorted(found, key=lambda pair: (pair[0], pair[1].cluster))]
