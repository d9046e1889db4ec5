from dataclasses import replace

from bench.segment_files import LogContent
from bench.source_data import SourceData, layout_problems
from bench.workloads import WORKLOADS

PLAIN = WORKLOADS["1k-lz4"].scaled(0.001)
COMPACTED = WORKLOADS["1k-compacted"].scaled(0.001)
GOOD = LogContent(records=PLAIN.records, batches=PLAIN.records // 125, codecs=("lz4",))


def test_a_log_as_described_has_no_problems() -> None:
    assert layout_problems(PLAIN, GOOD) == []


def test_other_codecs_counts_and_batch_sizes_are_named() -> None:
    assert "codecs are zstd" in layout_problems(PLAIN, replace(GOOD, codecs=("zstd",)))[0]
    assert "records, not" in layout_problems(PLAIN, replace(GOOD, records=GOOD.records - 1))[0]
    assert "records a batch" in layout_problems(PLAIN, replace(GOOD, batches=GOOD.batches * 2))[0]


def test_a_compacted_log_must_have_lost_records_and_have_holes() -> None:
    good = LogContent(records=COMPACTED.records // 2, batches=100, batches_with_holes=95, codecs=("lz4",))
    assert layout_problems(COMPACTED, good) == []
    assert "are left" in layout_problems(COMPACTED, replace(good, records=COMPACTED.records))[0]
    assert "have holes" in layout_problems(COMPACTED, replace(good, batches_with_holes=10))[0]


def test_source_data_add_up_over_partitions() -> None:
    content = LogContent(records=10, batches=2, wire_bytes=3000, codecs=("lz4",))
    data = SourceData(1024, {("t", 0): content, ("t", 1): content})
    assert (data.records, data.uncompressed_bytes, data.wire_bytes) == (20, 20_480, 6000)
    assert data.to_json()["compression_factor"] == 3.41
