"""The rule of the offset map in its plainest form; the packed map of wire must come to the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from srm_common.domain.offsets.segments import Segment


def current_map(committed: Iterable[Segment]) -> list[Segment]:
    """What holds of one partition's segments, given in the order of their commits, ordered by upstream start.

    A later segment replaces what earlier ones say about its start and everything after it, on either side:
    the source topic was copied again, or the target's log was cut. What it leaves of an earlier segment keeps that
    one's runs; only ``upstream_end`` is cut. One of another generation replaces all: the source topic was created
    again, so that earlier offsets mean something else.
    """
    out: list[Segment] = []
    generation = 0
    for segment in committed:
        if segment.generation:
            if generation and segment.generation != generation:
                out.clear()
            generation = segment.generation
        while out and (
            out[-1].upstream_start >= segment.upstream_start or out[-1].downstream_start >= segment.downstream_start
        ):
            out.pop()
        out.append(segment)
    for index, (segment, following) in enumerate(pairwise(out)):
        if segment.upstream_end > following.upstream_start:
            out[index] = replace(segment, upstream_end=following.upstream_start)
    return out
