"""Proves transactions: none of their records is copied before the COMMIT marker was read.

Brokers do not list all aborted transactions (:mod:`srm_common.wire.visibility`). So where an answer ends between
records and their marker, the marker is looked for, and remembered for the answers that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import CorruptBatch, SrmError
from srm_common.kafka.client.link import ClusterLink
from srm_common.kafka.log.transaction_markers import Marker, MarkerSearch, find_markers
from srm_common.replication.slots.blocks import Portion
from srm_common.wire.batch import TRANSACTIONAL, verify

#: A search that brings nothing for so long counts as a fault of its partition, which is read again.
_SILENCE_SECONDS = 10.0


class Proofs:
    """The markers that one reader of one cluster has seen ahead of its positions.

    Args:
        note: called once for each broker that left an aborted transaction out.
        heard: called with each response.
    """

    def __init__(self, link: ClusterLink, note: Callable[[str], None], heard: Callable[[], None]) -> None:
        self._link = link
        self._note = note
        self._heard = heard
        self._ahead: dict[TopicPartition, dict[int, Marker]] = {}
        self._told: set[tuple[TopicPartition, int]] = set()

    def missing(self, portions: Sequence[Portion]) -> bool:
        """Whether markers of these have to be looked for."""
        return any(portion.unproved for portion in portions)

    async def find(self, portions: Sequence[Portion], node: int) -> dict[TopicPartition, SrmError]:
        """Look for the markers, and leave out what was aborted; returns why that failed, by partition.

        Args:
            node: the broker that has answered.
        """
        searches = []
        for portion in portions:
            place = portion.state.upstream
            ahead = self._ahead.get(place, {})
            known = {one: marker for one, marker in ahead.items() if marker.follows(portion.next_offset)}
            unknown = {one: first for one, first in portion.unproved.items() if one not in known}
            if unknown:
                searches.append(MarkerSearch(place, portion.next_offset, unknown, dict(known)))
            self._ahead[place] = known
        await find_markers(self._link, searches, _SILENCE_SECONDS, self._heard)
        faults: dict[TopicPartition, SrmError] = {}
        for search in searches:
            if search.fault is not None:
                faults[search.place] = search.fault
            else:
                self._ahead[search.place] = search.found
        for portion in portions:
            place = portion.state.upstream
            if place not in faults:
                try:
                    self._leave_out(portion, node)
                except CorruptBatch as error:
                    faults[place] = CorruptBatch(f"partition {place[0]}-{place[1]}: {error}")
        return faults

    def _leave_out(self, portion: Portion, node: int) -> None:
        place = portion.state.upstream
        aborted = {one: first for one, first in portion.unproved.items() if self._ahead[place][one].aborted}
        if aborted:
            self.tell(place, node)
            kept = []
            for batch in portion.batches:
                header = batch.header
                first = aborted.get(header.producer_id) if header.attributes & TRANSACTIONAL else None
                if first is None or header.base_offset < first:
                    kept.append(batch)
                else:
                    verify(batch)
            portion.batches = kept
        portion.unproved = {}

    def tell(self, place: TopicPartition, node: int) -> None:
        """A broker has given out aborted records as committed ones."""
        if (place, node) not in self._told:
            self._told.add((place, node))
            self._note(
                f"broker {node} of {self._link.alias} gave out aborted records of partition {place[0]}-{place[1]} as "
                f"committed; they were left out, by the marker of their transaction"
            )
