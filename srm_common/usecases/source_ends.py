"""Where the source's logs end at this moment."""

from __future__ import annotations

from collections.abc import Collection

from srm_common.domain.flow import FlowSettings
from srm_common.errors import SrmError
from srm_common.kafka.admin import ClusterAdmin
from srm_common.kafka.compacted import LATEST

_SOURCE_SECONDS = 10.0


def source_ends(
    flow: FlowSettings, places: Collection[tuple[str, int]]
) -> tuple[dict[tuple[str, int], int], str | None]:
    """The ends of the partitions that could be asked, and why others could not, in one sentence.

    An end is the last stable offset where the flow reads committed records only. Partitions that do not exist any
    more are left out without a word.
    """
    if not places:
        return {}, None
    source = ClusterAdmin(flow.source, timeout_seconds=_SOURCE_SECONDS)
    try:
        # Asked first, since it fails at once for the whole cluster where the others wait for each partition.
        known = source.topics().partitions
        there = [place for place in places if place[1] < known.get(place[0], 0)]
        answers = source.offsets(there, LATEST, committed=flow.read_committed)
    except SrmError as error:
        return {}, str(error)
    refused = [answer for answer in answers.values() if isinstance(answer, SrmError)]
    ends = {place: answer for place, answer in answers.items() if isinstance(answer, int)}
    return ends, str(refused[0]) if refused else None
