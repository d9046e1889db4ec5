import pytest

from bench.workloads import PARTITIONS, WORKLOADS


def test_names_are_those_results_are_kept_under() -> None:
    assert list(WORKLOADS) == ["1k-lz4", "1k-none", "1k-zstd", "100b-lz4", "100b-tiny", "1k-compacted", "idle"]


@pytest.mark.parametrize("name", WORKLOADS)
def test_records_fill_all_partitions_evenly(name: str) -> None:
    workload = WORKLOADS[name].scaled(0.01)
    assert workload.records % (PARTITIONS * workload.busy_topics) == 0
    assert workload.records * workload.record_bytes <= workload.uncompressed_bytes


def test_idle_has_two_hundred_topics_without_records() -> None:
    idle = WORKLOADS["idle"]
    assert (len(idle.topics), len(idle.empty_topics)) == (5, 200)
    assert not set(idle.topics) & set(idle.empty_topics)


def test_only_the_compacted_workload_repeats_keys() -> None:
    assert [name for name, workload in WORKLOADS.items() if workload.distinct_keys] == ["1k-compacted"]
    compacted = WORKLOADS["1k-compacted"]
    assert compacted.distinct_keys == compacted.records // PARTITIONS // 2
