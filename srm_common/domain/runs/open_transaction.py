"""Transactions at a source that stay open: no reader of committed records gets past them, so nothing of the partition
is copied, and what was committed behind them may be deleted by retention."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from srm_common.domain.amount import counted, duration
from srm_common.domain.topic_partition import TopicPartition

#: So many of a flow are remembered, the oldest ones; a cluster whose coordinator is gone may have thousands.
OPEN_TRANSACTIONS_KEPT = 20


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """What holds ``topic``-``partition`` back at its last stable offset, ``offset``, although its log goes on to
    ``end``. Runs have seen that since ``since_ms`` (epoch milliseconds). ``producer_id`` and ``transactional_id``:
    whose transaction it is; None where the brokers do not tell."""

    topic: str
    partition: int
    offset: int
    end: int
    since_ms: int
    producer_id: int | None = None
    transactional_id: str | None = None

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        whose = "a producer" if self.producer_id is None else f"producer {self.producer_id}"
        whose += f" ('{self.transactional_id}')" if self.transactional_id else ""
        return f"{self.place} cannot be read beyond offset {self.offset} of {self.end}: {whose} has a transaction open"

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> Self:
        """From ``astuple``, even of a newer version with additional fields. Raises TypeError."""
        found = cls(*row[: len(fields(cls))])
        if not (isinstance(found.topic, str) and isinstance(found.since_ms, int)):
            raise TypeError(f"{row!r} does not describe an open transaction")
        return found


def still_open(
    before: Iterable[OpenTransaction],
    held: Mapping[TopicPartition, tuple[int, int]],
    producers: Mapping[TopicPartition, tuple[int, str | None]],
    now_ms: int,
    elsewhere: Iterable[OpenTransaction] = (),
) -> tuple[OpenTransaction, ...]:
    """Those that are open now, the oldest first, at most :data:`OPEN_TRANSACTIONS_KEPT`.

    Args:
        before: as the last run left them.
        held: last stable offset and end of partitions that were held back in the last run and are now.
        elsewhere: those of ``before`` in partitions that could not be looked at, or were not due.
        producers: ids of their producers, and transactional ids, as far as known.
    """
    known = {(one.place, one.offset): one.since_ms for one in before}
    found = [
        OpenTransaction(*place, offset, end, known.get((place, offset), now_ms), *producers.get(place, ()))
        for place, (offset, end) in held.items()
    ]
    return tuple(sorted([*found, *elsewhere], key=lambda one: (one.since_ms, one.place))[:OPEN_TRANSACTIONS_KEPT])


def overdue(known: Iterable[OpenTransaction], now_ms: int, alarm_seconds: float) -> list[OpenTransaction]:
    """Those that have been open for longer than that, the oldest first."""
    return [one for one in known if now_ms - one.since_ms > alarm_seconds * 1000]


def sentence(late: Sequence[OpenTransaction], now_ms: int) -> str:
    """One sentence about at least one of them, the oldest first."""
    first = late[0]
    text = f"{first}, for {duration(now_ms - first.since_ms)}"
    more = len(late) - 1
    if not more:
        return text
    least = "at least " if len(late) >= OPEN_TRANSACTIONS_KEPT else ""
    return f"{text}; {least}{counted(more, 'other partition')} likewise"


def find_hanging(bootstrap_servers: str, topic: str, partition: int) -> str:
    """Kafka's command that names the producer of a partition's hanging transaction."""
    return (
        f"kafka-transactions.sh --bootstrap-server {bootstrap_servers} find-hanging --topic {topic} "
        f"--partition {partition}"
    )
