"""What ``producer.compression.type`` saves and costs: ``python -m bench.codecs [--megabytes 256]``.

Batches of 1 KB records, as a slot has them after a fetch, go through what makes batches ready to be sent, checksums
included; no brokers, so that the figures are those of the codecs. Prints the tables of docs/performance.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from bench.records import key_of, value_pool
from bench.workloads import WORKLOADS
from srm_common.domain.flow import COMPRESSION_TYPES, Compression
from srm_common.wire.batches.batch import Packed, SourceBatch, parse_header, stamp
from srm_common.wire.batches.records import LooseRecord, pack
from srm_common.wire.reencoding.repack import recompress, repack
from srm_common.wire.varints import write_varint

_RECORD_BYTES, _POOL = 1000, 20_000
_BATCH_BYTES = WORKLOADS["1k-lz4"].batch_bytes
_END, _LIMIT = 1 << 62, 1_048_588
#: Kafka's producer's.
_LEVELS = {"gzip": -1, "lz4": 9, "zstd": 3}


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=256, help="of records before compression, for each figure")
    megabytes = parser.parse_args().megabytes
    share: list[list[str]] = []
    cost: list[list[str]] = []
    for source in COMPRESSION_TYPES:
        batches = _batches(COMPRESSION_TYPES.index(source))
        rounds = max(1, megabytes * 1_000_000 // (_RECORD_BYTES * _POOL))
        read = sum(len(batch.data) for batch in batches)
        plain = _figures(partial(repack, batches, 0, _END, _LIMIT), rounds)
        row_share, row_cost = [f"{read / (_RECORD_BYTES * _POOL):.0%}"], [f"{plain[1]:.2f}"]
        for wanted in COMPRESSION_TYPES:
            chosen = Compression(wanted, _LEVELS.get(wanted, 0))
            written, seconds = _figures(partial(recompress, batches, 0, _END, _LIMIT, chosen), rounds)
            row_share.append(f"{written / read - 1:+.0%}" if wanted != source else "unchanged")
            row_cost.append(f"{seconds:.2f}")
        share.append([source, *row_share])
        cost.append([source, *row_cost])
    print(time.strftime("%Y-%m-%d"), f"{megabytes} MB for each figure, batches of {_BATCH_BYTES} bytes", sep=", ")
    _print(["source", "of its records", *COMPRESSION_TYPES], share)
    _print(["source", "unopened", *COMPRESSION_TYPES], cost)


def _figures(prepare: Callable[[], Iterable[Packed]], rounds: int) -> tuple[int, float]:
    """Bytes of the batches to write, and CPU seconds for a gigabyte of records before compression."""
    written = 0
    begun = time.process_time()
    for _ in range(rounds):
        written = 0
        for packed in prepare():
            header = stamp(
                packed.attributes,
                packed.record_count - 1,
                packed.base_timestamp,
                packed.max_timestamp,
                packed.record_count,
                packed.body,
                1,
                1,
                0,
                packed.checked,
            )
            written += len(header) + len(packed.body)
    return written, (time.process_time() - begun) / rounds / (_RECORD_BYTES * _POOL / 1e9)


def _batches(codec: int) -> list[SourceBatch]:
    """The pool's records as their producer would have sent them."""
    batches: list[SourceBatch] = []
    records: list[LooseRecord] = []
    size = 0
    for offset, value in enumerate(value_pool(_RECORD_BYTES, _POOL)):
        key = key_of(offset)
        tail = write_varint(len(key)) + key + write_varint(len(value)) + value + write_varint(0)
        records.append(LooseRecord(offset, 1_700_000_000_000 + offset, 0, tail))
        size += len(tail)
        if size + _RECORD_BYTES > _BATCH_BYTES or offset == _POOL - 1:
            batches.append(_source(pack(records, codec), records[0].offset))
            records, size = [], 0
    return batches


def _source(one: Packed, offset: int) -> SourceBatch:
    header = stamp(
        one.attributes, one.record_count - 1, one.base_timestamp, one.max_timestamp, one.record_count, one.body, 1, 1, 0
    )
    data = offset.to_bytes(8, "big") + header[8:] + bytes(one.body)
    return SourceBatch(parse_header(data), memoryview(data))


def _print(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print()
    print(f"| {' | '.join(columns)} |")
    print(f"|{'---|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    _main()
