"""A results file's content, made by the code that writes it."""

from dataclasses import replace
from typing import Any

import pytest

from bench.figures import Figures, comparison

FIGURES = Figures(10.0, 5.0, 100.0, 100_000.0, 16.0, 20.0, 8.0, 1.0, 2.0, 900.0)


@pytest.fixture
def result() -> dict[str, Any]:
    compared = comparison({"mm2": [FIGURES], "srm": [replace(FIGURES, cpu_seconds_per_gb=2.0, mb_per_second=260.0)]})
    compared["times_the_floor"] = 10.0
    entry = {
        **compared, "at_least_once": compared, "floor": {"cpu_seconds_per_gb": 0.2, "mb_per_second": 900.0},
        "date": "2025-01-01T00:00:00+00:00", "machine": {"cores": 2}, "versions": {"kafka": "4.3.1"},
    }  # fmt: skip
    return {"workloads": {"1k-lz4": entry, "idle": entry}}
