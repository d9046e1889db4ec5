"""Runs of a flow with a function of the user's."""

from __future__ import annotations

import platform
import re
import resource
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from srm_common.domain.runs.run_record import RunState
from srm_common.errors import ConfigError
from srm_common.records.row_faults import RowFaults
from srm_common.settings_files.user_classes import code_digest
from srm_common.usecases.topics.plan_topics import plan_topics
from tests.unit.usecases.fakes import Sides
from tests.unit.usecases.runs.test_replicate import positions


def without_b(records: pa.RecordBatch) -> pa.RecordBatch:
    """Drops the records whose value is b."""
    return records.filter(pc.not_equal(records["value"], b"b"))


def moody(records: pa.RecordBatch) -> pa.RecordBatch:
    """Does what the first record says."""
    values = records["value"].to_pylist()
    if values[0] == b"raise":
        raise ValueError("no such day")
    if values[0] == b"hang":
        time.sleep(60)
    if values[0] == b"hoard":
        # Not written to, so that the machine does not notice.
        raise LookupError(len([np.zeros(1 << 28, np.uint8) for _ in range(100_000)]))
    refused = {row: "refused" for row, value in enumerate(values) if value == b"refuse"}
    if refused:
        raise RowFaults(refused)
    return records


def write(sides: Sides, *values: str, partition: int = 0) -> None:
    sides.source.write("orders", [(b"k", value.encode()) for value in values], partition)


def test_a_function_of_the_users_changes_what_is_copied(sides: Sides) -> None:
    sides.source.create_topic("orders")
    sides.set(transforms_python=f"{__name__}:without_b")
    write(sides, "a", "b", "c", "b")
    sides.refresh()
    record = sides.run()
    assert (record.state, record.records) == (RunState.DONE, 2)
    assert sides.values("a.orders") == [b"a", b"c"]
    assert positions(sides) == {("orders", 0): 4}


@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_a_function_that_raises_or_hangs_stops_its_partition_and_the_others_go_on(sides: Sides, tolerance: str) -> None:
    sides.source.create_topic("orders", 4)
    own = f"{__name__}:moody"
    sides.set(transforms_python=own, transforms_python_timeout_seconds=0.5, errors_tolerance=tolerance)
    write(sides, "raise", "a")
    write(sides, "hang", "a", partition=1)
    write(sides, "a", "b", partition=2)
    write(sides, "a", "refuse", "b", partition=3)
    sides.refresh()
    record = sides.run()
    assert record.state is RunState.FAILED
    began = "transforms.python:"
    whole = {
        0: f"orders-0: partition orders-0: offsets 0 to 1, {began} {own} raised ValueError: no such day",
        1: f"orders-1: partition orders-1: offsets 0 to 1, {began} {own} took longer than "
        f"transforms.python.timeout.seconds = 0.5",
    }
    if tolerance == "none":
        whole[3] = f"orders-3: partition orders-3: offset 1, {began} refused"
    assert {partition.partition: partition.trouble for partition in record.failed_partitions} == whole
    assert sides.values("a.orders", 2) == [b"a", b"b"]
    assert sides.values("a.orders", 3) == ([b"a"] if tolerance == "none" else [b"a", b"b"])


def test_a_function_that_uses_up_memory_stops_its_partition_and_the_others_go_on(sides: Sides) -> None:
    sides.source.create_topic("orders", 2)
    own = f"{__name__}:moody"
    sides.set(transforms_python=own, transforms_python_timeout_seconds=20.0, errors_tolerance="all")
    write(sides, "hoard", "a")
    write(sides, "a", "b", partition=1)
    sides.refresh()
    before = resource.getrlimit(resource.RLIMIT_AS)
    record = sides.run()
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    (failed,) = record.failed_partitions
    assert re.fullmatch(
        f"orders-0: partition orders-0: offsets 0 to 1, transforms.python: {re.escape(own)} ran out of memory: a call "
        "may use half of the free memory, here [0-9,]+ MiB",
        str(failed.trouble),
    )
    assert sides.values("a.orders", 1) == [b"a", b"b"]


def test_a_change_of_its_code_is_told(sides: Sides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(notes: Iterable[str]) -> list[str]:
        return [note for note in notes if "changed since" in note]

    module = f"shop_{tmp_path.name}".replace("-", "_")
    folder = tmp_path / module
    folder.mkdir()
    (folder / "__init__.py").write_text("import absent_where_flows_are_planned")
    (folder / "orders.py").write_text("def clean(records):\n    return records\n")
    path = f"{module}.orders:clean"
    sides.source.create_topic("orders")
    sides.set(transforms_python=path)
    sides.refresh()
    # Not to be found where this one is driven: nothing can be told of it. There is nothing to copy either.
    assert told(sides.run("first").notes) == []
    monkeypatch.syspath_prepend(str(tmp_path))
    assert told(sides.run("second").notes) == []
    before = code_digest(path)
    assert told(plan_topics(sides.clusters()).notices) == []
    (folder / "orders.py").write_text("def clean(records):\n    return records.slice(0, 0)\n")
    (notice,) = told(plan_topics(sides.clusters()).notices)
    assert notice == (
        f"the code of {path} has changed since run 'second' ({before} -> {code_digest(path)}): records copied from the "
        f"next run on go through the new one, records already copied stay"
    )
    assert told(sides.run("third").notes) == [notice.replace("the next run", "now")]
    assert told(sides.run("fourth").notes) == []
    assert module not in sys.modules


def test_another_function_where_slots_run_is_not_applied(
    sides: Sides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process has loaded the module, as a worker's machine may have an older one."""
    module = f"shop_{tmp_path.name}".replace("-", "_")
    file = tmp_path / f"{module}.py"
    file.write_text("def clean(records):\n    return records\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    path = f"{module}:clean"
    sides.source.create_topic("orders")
    sides.set(transforms_python=path)
    write(sides, "secret")
    sides.refresh()
    sides.run("first")
    older = code_digest(path)
    file.write_text("def clean(records):\n    return records.slice(0, 0)\n")
    write(sides, "secret")
    with pytest.raises(ConfigError) as refused:
        sides.run("second")
    assert str(refused.value) == (
        f"flow a->b has transforms.python, and where slots run, on {platform.node()}, the module of '{path}' is "
        f"another one (digest {older}) than where the run is driven ({code_digest(path)}): install the same one "
        "wherever slots run, or ship it to Spark's workers, see docs/transforms.md"
    )
    assert sides.values("a.orders") == [b"secret"]
    # As if it were deployed on both, or put back.
    file.write_text("def clean(records):\n    return records\n")
    assert sides.run("third").records == 1


def test_a_function_that_is_not_installed_where_slots_run(sides: Sides) -> None:
    sides.source.create_topic("orders")
    sides.set(transforms_python="absent.orders:clean")
    write(sides, "a")
    sides.refresh()
    with pytest.raises(
        ConfigError,
        match=r"flow a->b has transforms\.python, and where slots run 'absent\.orders:clean' cannot be imported: "
        r"there is no Python module 'absent' here",
    ):
        sides.run()
    assert sides.values("a.orders") == []


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def clean(records:\n", r"cannot be imported: SyntaxError: .*orders\.py, line 1\); use a function"),
        ("def other(records):\n    clear = 1\n    return records\n", r"module '.*\.orders' has no 'clean'"),
    ],
)
def test_the_plan_refuses_a_function_that_its_file_does_not_have(
    sides: Sides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    """In the run's words; the refresh of topics and `apply` make the same plan."""
    module = f"shop_{tmp_path.name}".replace("-", "_")
    (tmp_path / module).mkdir()
    (tmp_path / module / "orders.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    sides.source.create_topic("orders")
    sides.refresh()
    write(sides, "a")
    sides.set(transforms_python=f"{module}.orders:clean")
    with pytest.raises(ConfigError, match=rf"flow a->b has transforms\.python, and .*{reason}") as planned:
        plan_topics(sides.clusters())
    assert f"{module}.orders" not in sys.modules
    with pytest.raises(ConfigError) as run:
        sides.run()
    assert str(run.value) == str(planned.value).replace("and ", "and where slots run ", 1)


@pytest.mark.parametrize(
    "code",
    [
        "from functools import partial as clean",
        "if True:\n    clean = print",
        "from os.path import *",
        "def __getattr__(name):\n    return print",
        "globals()['clean'] = print",
        "for clean in (print,):\n    pass",
        "import clean.other",
    ],
)
def test_the_plan_takes_a_module_that_may_have_the_function(
    sides: Sides, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    module = f"orders_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{module}.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    sides.set(transforms_python=f"{module}:clean")
    assert not any("transforms.python" in note for note in plan_topics(sides.clusters()).notices)


def test_the_plan_tells_that_a_function_is_not_installed_here(sides: Sides) -> None:
    """It may be where slots run."""
    sides.set(transforms_python="absent.orders:clean")
    (notice,) = [one for one in plan_topics(sides.clusters()).notices if "transforms.python" in one]
    assert notice == (
        "flow a->b has transforms.python, and 'absent.orders:clean' cannot be imported: there is no Python module "
        "'absent' here; use a function that is installed wherever slots run"
    )
