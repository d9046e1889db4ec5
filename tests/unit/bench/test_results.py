import json
from pathlib import Path

import pytest

from bench.errors import BenchError
from bench.results import merged, read, write

OLD = {"date": "2025-01-01", "workloads": {"idle": {"date": "2025-01-01"}, "1k-lz4": {"date": "2025-01-01"}}}


def test_workloads_that_were_not_run_keep_their_figures_and_date() -> None:
    entry = {"date": "2025-02-02", "machine": {"cores": 2}}
    found = merged(OLD, "1k-lz4", entry)
    assert found == {"date": "2025-02-02", "workloads": {"1k-lz4": entry, "idle": {"date": "2025-01-01"}}}


def test_workloads_stand_in_their_fixed_order() -> None:
    assert list(merged(OLD, "100b-lz4", {"date": ""})["workloads"]) == ["1k-lz4", "100b-lz4", "idle"]


def test_nothing_yet_is_an_empty_result(tmp_path: Path) -> None:
    assert read(tmp_path / "latest.json") == {"workloads": {}}


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "results" / "latest.json"
    write(path, OLD)
    assert read(path) == OLD
    assert [file.name for file in path.parent.iterdir()] == ["latest.json"]


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"workloads": []})])
def test_a_file_that_is_no_result_is_not_overwritten(tmp_path: Path, text: str) -> None:
    path = tmp_path / "latest.json"
    path.write_text(text)
    with pytest.raises(BenchError, match="move it away"):
        read(path)
