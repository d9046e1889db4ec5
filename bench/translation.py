"""What translating costs for many groups with a long history, without brokers: ``python -m bench.translation``.

The offset map is what a reader of the segments topic has in hand: keys and values as they lie in the log. What is timed
is everything that is done with them: ordering them by partition, finding out which still hold, and the translation of
each committed offset. The figures in docs/offsets.md are for the default size, on one core.
"""

from __future__ import annotations

import gc
import json
import random
import resource
import time
from collections.abc import Iterator

import click

from srm_common.domain.offsets.segments import OffsetSpan, build_segment, generation_of
from srm_common.domain.offsets.translation import Translated
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.state.segment_log import SegmentBatch
from srm_common.wire.state.segment_map import SegmentMap
from srm_common.wire.state.segments import encode_segment

_RECORDS = 5000
_GENERATION = generation_of("Xw8pT0yRQf2mS1kZ3bN6vA")

Record = tuple[bytes, bytes]
Position = tuple[str, int, int]


def records(segments: int, partitions: int) -> Iterator[Record]:
    """Segments of chunk after chunk, each with one hole at the source and one commit marker on the target."""
    places = [(f"team-{number // 100}.topic-{number // 10}", number % 10) for number in range(partitions)]
    for number in range(segments):
        chunk, place = divmod(number, partitions)
        upstream, downstream = chunk * (_RECORDS + 1), chunk * (_RECORDS + 1)
        half = _RECORDS // 2
        runs = [
            OffsetSpan(upstream, half, downstream, half),
            OffsetSpan(upstream + half + 1, half, downstream + half, half),
        ]
        end = upstream + _RECORDS + 1
        yield encode_segment(build_segment(*places[place], upstream, end, runs, 1024, _GENERATION))


def positions(count: int, segments: int, partitions: int, recent: float) -> list[Position]:
    """Committed offsets: ``recent`` of them within the newest chunk, the others anywhere in the history."""
    dice = random.Random(1)
    chunks = segments // partitions
    out = []
    for number in range(count):
        place = number % partitions
        chunk = chunks - 1 if dice.random() < recent else dice.randrange(chunks)
        position = chunk * (_RECORDS + 1) + dice.randrange(_RECORDS)
        out.append((f"team-{place // 100}.topic-{place // 10}", place % 10, position))
    return out


@click.command()
@click.option("--offsets", default=100_000, show_default=True, help="Committed offsets of groups.")
@click.option("--segments", default=1_000_000, show_default=True)
@click.option("--partitions", default=1000, show_default=True)
@click.option("--recent", default=0.0, show_default=True, help="Share of the offsets within the newest chunk.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def main(offsets: int, segments: int, partitions: int, recent: float, output: str) -> None:
    """Translate so many offsets by a map of so many segments."""
    batch = SegmentBatch()
    map_seconds = 0.0
    size = taken = 0
    made = records(segments, partitions)
    # Piece by piece, as they are read: the records themselves are not kept.
    while piece := [record for _, record in zip(range(100_000), made, strict=False)]:
        size += sum(len(key) + len(value) for key, value in piece)
        gc.collect()
        started = time.process_time()
        for offset, (key, value) in enumerate(piece, taken):
            batch.put(key, value, offset)
        taken += len(piece)
        map_seconds += time.process_time() - started
    wanted = positions(offsets, segments, partitions, recent)
    gc.collect()
    started = time.process_time()
    maps = {place: SegmentMap(committed) for place, committed in batch.segments.items()}
    order_seconds = time.process_time() - started
    started = time.process_time()
    found = {one: maps[TopicPartition(one[0], one[1])].translate(one[2]) for one in sorted(wanted)}
    translate_seconds = time.process_time() - started
    exact = sum(isinstance(one, Translated) and one.exact for one in found.values())
    figures = {
        "offsets": offsets,
        "segments": len(batch),
        "partitions": len(maps),
        "not_exact": len(found) - exact,
        "map_mb_in_the_log": round(size / 1e6, 1),
        "take_in_seconds": round(map_seconds, 2),
        "order_seconds": round(order_seconds, 2),
        "translate_seconds": round(translate_seconds, 2),
        "cpu_seconds": round(map_seconds + order_seconds + translate_seconds, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    print(
        json.dumps(figures) if output == "json" else "\n".join(f"{key:>28}  {value}" for key, value in figures.items())
    )


if __name__ == "__main__":
    main()
