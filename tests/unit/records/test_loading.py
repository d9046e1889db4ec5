"""What processes are forked with, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SCRIPT = """
import sys
from srm_common.records.loading import load
assert "pyarrow" not in sys.modules
load()
from srm_common.wire.reencoding import record_walk
loops = (record_walk.walk, record_walk.gather, record_walk.sizes, record_walk.write, record_walk.walk_headers)
print("pyarrow" in sys.modules, [len(loop.signatures) for loop in loops])
"""


def test_the_loops_are_there_before_the_first_record() -> None:
    pytest.importorskip("numba", reason="numba is not installed: pip install 'srm-kafka[transforms]'")
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=1) == ["True", "[1, 1, 1, 1, 1]\n"]


_LOADED = """
from srm_common.wire.reencoding import merging
merging.load()
from srm_common.wire.reencoding import batch_walk, holed_rows
loops = (batch_walk.renumber, batch_walk.scan, batch_walk.unpack, holed_rows.close_batches)
print([len(loop.signatures) for loop in loops])
"""


def test_loops_that_close_holes_are_there_before_the_first_batch() -> None:
    pytest.importorskip("numba", reason="numba is not installed: pip install 'srm-kafka[transforms]'")
    done = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True)
    assert done.stdout == "[1, 1, 1, 1]\n"
