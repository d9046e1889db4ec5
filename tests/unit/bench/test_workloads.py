from collections.abc import Callable
from pathlib import Path

import pytest

from bench.mirror_maker import mirror_maker_properties
from bench.replicator import replicator_properties
from bench.sides import Flow
from bench.workloads import PARTITIONS, WORKLOADS
from srm_common.domain.transforms.chain import StepKind
from srm_common.settings_files.configuration import load_configuration


def test_names_are_those_results_are_kept_under() -> None:
    plain = ["1k-lz4", "1k-lz4-tls", "1k-none", "1k-zstd", "100b-lz4", "100b-tiny", "1k-compacted"]
    changed = [
        "1k-transforms",
        "100b-transforms",
        "1k-python",
        "100b-python",
        "1k-sql",
        "100b-sql",
        "1k-spark-sql",
        "100b-spark-sql",
    ]
    assert list(WORKLOADS) == [*plain, *changed, "idle"]


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


@pytest.mark.parametrize("side", [mirror_maker_properties, replicator_properties])
def test_both_sides_are_given_the_same_transforms(side: Callable[..., dict[str, str]], tmp_path: Path) -> None:
    workload = WORKLOADS["100b-transforms"]
    flow = Flow("east1", workload.topic_pattern, "lz4", 100, exactly_once=True, transforms=workload.transforms)
    ports = (8083,) if side is mirror_maker_properties else ()
    properties = side(flow, "a:1", "b:2", *ports)
    file = tmp_path / "flow.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
    chain = load_configuration(file).flow("east1->backup").transforms
    assert [step.kind for step in chain] == [StepKind.FILTER, StepKind.INSERT_HEADER]
