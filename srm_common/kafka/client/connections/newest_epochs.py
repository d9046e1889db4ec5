"""The newest epochs of leaders that links have seen: who led before does not lead any more (KIP-320)."""

from __future__ import annotations

import time
from collections.abc import Iterable
from uuid import UUID

#: So long after all brokers have named older epochs, and do it again, the newer one is given up: a broker may lead
#: before it and the others list it.
SETTLED_SECONDS = 2.0


class NewestEpochs:
    """By topic id and partition, of one cluster. Threads may share it: an update that is lost is seen again.

    An epoch is given up when no broker of the cluster names it: metadata that were restored from a backup begin with
    older ones, under the same topic ids.
    """

    def __init__(self) -> None:
        self._newest: dict[tuple[UUID, int], int] = {}
        #: Epochs that no broker named, and since when.
        self._unnamed: dict[tuple[UUID, int], tuple[int, float]] = {}
        #: Epochs that were given up; neither they nor older ones are evidence.
        self._given_up: dict[tuple[UUID, int], int] = {}
        #: When several brokers were asked for the leaders of topics, by name.
        self._asked: dict[str, float] = {}

    def of(self, topic_id: UUID | None, partition: int) -> int:
        """-1 where none is known, as for topics without ids."""
        return -1 if topic_id is None else self._newest.get((topic_id, partition), -1)

    def saw(self, topic_id: UUID | None, partition: int, epoch: int) -> bool:
        """A leader had this epoch (-1: unknown); whether that is news. Of topics without ids nothing is kept, as one of
        the same name that is created later begins with epoch 0."""
        if topic_id is None or not topic_id.int or epoch <= self.of(topic_id, partition):
            return False
        key = (topic_id, partition)
        if epoch <= self._given_up.get(key, -1):
            return False
        self._newest[key] = epoch
        return True

    def asked(self, topics: Iterable[str]) -> None:
        """Several brokers were asked for the leaders of these topics just now."""
        self._asked.update(dict.fromkeys(topics, time.monotonic()))

    def asked_since(self, topics: Iterable[str], moment: float) -> bool:
        """Whether :meth:`asked` was called for all of them since a moment (monotonic seconds)."""
        return all(self._asked.get(topic, float("-inf")) >= moment for topic in topics)

    def named(self, topic_id: UUID, partition: int, epoch: int) -> None:
        """Of all brokers, none names a newer epoch than this one."""
        key, newest = (topic_id, partition), self.of(topic_id, partition)
        if epoch >= newest:
            self._unnamed.pop(key, None)
            return
        unnamed, since = self._unnamed.setdefault(key, (newest, time.monotonic()))
        if unnamed != newest:
            self._unnamed[key] = newest, time.monotonic()
        elif time.monotonic() - since >= SETTLED_SECONDS:
            del self._unnamed[key]
            self._newest[key], self._given_up[key] = epoch, newest
