"""``make demo-verify`` in a clone that has never run anything: each fault is planted in a real broker, and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.planting import IN_FILES, LIVE
from srm_common.testing.planted_faults import FAULTS
from tests.airflow.fresh_clone import FreshClone

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_the_demo_plants_each_fault_of_the_kit_and_names_it(tmp_path: Path) -> None:
    assert {file.fault for file in IN_FILES} == FAULTS.keys()
    clone = FreshClone(tmp_path / "clone")
    try:
        told = clone.make("demo-verify")
        stopped = clone.make("demo-stop")
    finally:
        clone.close()
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stderr == ""
    planted = len(IN_FILES) + len(LIVE)
    assert f"{planted} of {planted} planted faults are found and named; 5 of 5 partitions without any" in told.stdout
    assert told.stdout.count("no difference in ") == 3
    for file in (*IN_FILES, *LIVE):
        (line,) = (line for line in told.stdout.splitlines() if line.startswith(file.fault) and line.endswith("named"))
        assert f" east.{file.topic}-{file.partition} " in line
        assert file.named in line
    assert "srm-control source-offsets set --flow 'east->west' --topic orders --partition 1" in told.stdout
    assert stopped.stdout == "no demo is running\n"
    assert not clone.demo_folder.exists()
