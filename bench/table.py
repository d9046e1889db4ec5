"""Results as tables on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

_ROWS = (
    ("throughput, MB/s", "mb_per_second", "{:,.0f}"),
    ("records/s", "records_per_second", "{:,.0f}"),
    ("wall time of the copy, s", "wall_seconds", "{:,.1f}"),
    ("start-up, s", "startup_seconds", "{:,.1f}"),
    ("CPU-s per GB", "cpu_seconds_per_gb", "{:,.2f}"),
    ("CPU-s per GB, start-up and end included", "cpu_seconds_per_gb_with_startup", "{:,.2f}"),
    ("CPU-s of the start-up", "startup_cpu_seconds", "{:,.1f}"),
    ("CPU-s of the end", "end_cpu_seconds", "{:,.1f}"),
    ("brokers' CPU-s per GB", "broker_cpu_seconds_per_gb", "{:,.2f}"),
    ("peak memory, MB", "peak_memory_mb", "{:,.0f}"),
)
_DELAY_ROWS = (
    ("delay, median, ms", "p50_ms"),
    ("delay, 99 of 100, ms", "p99_ms"),
    ("delay, longest, ms", "max_ms"),
    ("CPU-s a minute", "cpu_seconds_per_minute"),
    ("brokers' CPU-s a minute", "broker_cpu_seconds_per_minute"),
)
_MORE_IS_BETTER = {"mb_per_second", "records_per_second"}


def comparison_table(title: str, entry: Mapping[str, Any]) -> Table:
    """One workload under one guarantee, every figure and how many times better this project is."""
    table = Table(title=title, title_justify="left")
    table.add_column("uncompressed MB and GB")
    for name in ("MirrorMaker 2", "this project", "times better"):
        table.add_column(name, justify="right")
    mm2, srm = entry["mm2"], entry["srm"]
    for label, key, form in _ROWS:
        table.add_row(label, form.format(mm2[key]), form.format(srm[key]), _times(mm2[key], srm[key], key))
    return table


def _times(mm2: float, srm: float, key: str) -> str:
    better, worse = (srm, mm2) if key in _MORE_IS_BETTER else (mm2, srm)
    return f"{better / worse:.1f}" if worse > 0 else "-"


def summary_table(result: Mapping[str, Any]) -> Table:
    """All workloads of a results file, both guarantees."""
    table = Table(title="How many times better than MirrorMaker 2", title_justify="left")
    table.add_column("workload")
    table.add_column("guarantee")
    for name in ("CPU", "throughput", "CPU-s/GB", "MB/s", "floor, CPU-s/GB", "times the floor"):
        table.add_column(name, justify="right")
    table.add_column("taken")
    for name, entry in result["workloads"].items():
        for guarantee, compared in (("exactly once", entry), ("at least once", entry.get("at_least_once"))):
            if compared and "ratio" in compared:
                table.add_row(
                    name,
                    guarantee,
                    f"{compared['ratio']['cpu']:.1f}",
                    f"{compared['ratio']['throughput']:.1f}",
                    f"{compared['mm2']['cpu_seconds_per_gb']:.1f} -> {compared['srm']['cpu_seconds_per_gb']:.2f}",
                    f"{compared['mm2']['mb_per_second']:.0f} -> {compared['srm']['mb_per_second']:.0f}",
                    f"{entry['floor']['cpu_seconds_per_gb']:.2f}",
                    f"{compared['times_the_floor']:.1f}",
                    entry["date"][:10],
                )
    return table


def delay_table(entry: Mapping[str, Any]) -> Table:
    """The delays of a trickle, both sides."""
    table = Table(title=f"delay: {entry['summary']}", title_justify="left")
    table.add_column("exactly once")
    for name in ("MirrorMaker 2", "this project"):
        table.add_column(name, justify="right")
    for title, key in _DELAY_ROWS:
        table.add_row(title, *(f"{entry[side][key]:,.0f}" if side in entry else "" for side in ("mm2", "srm")))
    return table
