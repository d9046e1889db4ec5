import io
from typing import Any

from rich.console import Console

from bench.table import comparison_table, summary_table


def printed(renderable: object) -> str:
    console = Console(width=160, file=io.StringIO(), record=True)
    console.print(renderable)
    return console.export_text()


def test_the_table_says_how_many_times_better(result: dict[str, Any]) -> None:
    text = printed(comparison_table("1k-lz4", result["workloads"]["1k-lz4"]))
    rows = {line.split("│")[1].strip(): line for line in text.splitlines() if line.startswith("│")}
    assert "8.0" in rows["CPU-s per GB"]
    assert "2.6" in rows["throughput, MB/s"]


def test_the_summary_has_a_line_for_each_workload_and_guarantee(result: dict[str, Any]) -> None:
    text = printed(summary_table(result))
    assert text.count("exactly once") == text.count("at least once") == 2
