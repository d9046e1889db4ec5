"""The results file as one picture: CPU and throughput of both sides, workload by workload."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "bench.png"

_MM2, _SRM, _FLOOR = "#9aa5b1", "#1f77b4", "#d62728"
_WIDTH = 0.38


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Writes a PNG: two rows of bars (log scale), the ratios above them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    workloads = {name: entry for name, entry in result["workloads"].items() if "ratio" in entry}
    names = list(workloads)
    places = range(len(names))
    figure, (cpu, speed) = pyplot.subplots(2, 1, figsize=(13, 8), layout="constrained")
    for axes, key, times, better in (
        (cpu, "cpu_seconds_per_gb", "cpu", "less"),
        (speed, "mb_per_second", "throughput", "more"),
    ):
        mm2 = [workloads[name]["mm2"][key] for name in names]
        srm = [workloads[name]["srm"][key] for name in names]
        axes.bar([place - _WIDTH / 2 for place in places], mm2, _WIDTH, color=_MM2, label="MirrorMaker 2")
        bars = axes.bar([place + _WIDTH / 2 for place in places], srm, _WIDTH, color=_SRM, label="this project")
        labels = [f"{workloads[name]['ratio'][times]:.1f}x" for name in names]
        axes.bar_label(bars, labels=labels, padding=2, fontsize=10, fontweight="bold")
        axes.set_yscale("log")
        axes.set_xticks(list(places), [name.replace("-", "-\n", 1) for name in names], fontsize=8)
        axes.margins(y=0.15)
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
        axes.set_title(f"{_TITLES[key]} ({better} is better)", loc="left")
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    floors = [workloads[name]["floor"]["cpu_seconds_per_gb"] for name in names]
    cpu.hlines(floors, [place - 0.45 for place in places], [place + 0.45 for place in places], color=_FLOOR,
               label="socket floor: receive, checksum, send")  # fmt: skip
    cpu.legend(loc="upper left", ncols=3, frameon=False, fontsize=9)
    newest = max(result["workloads"].values(), key=lambda entry: str(entry["date"]))
    figure.supxlabel(
        f"exactly once, copy phase (start-up excluded), medians; {newest['machine']['cores']} cores shared with both "
        f"brokers, Kafka {newest['versions']['kafka']}, {newest['date'][:10]}",
        fontsize=9,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


_TITLES = {
    "cpu_seconds_per_gb": "CPU-seconds per GB of uncompressed records, whole process tree",
    "mb_per_second": "MB of uncompressed records per second",
}
