"""``python -m bench [WORKLOAD ...]``: the command line."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from bench import delay, results
from bench.certificate import make_certificate
from bench.errors import BenchError
from bench.figures import Figures, medians
from bench.machine import machine, now, versions
from bench.mirror_maker import MirrorMakerSide
from bench.plot import PICTURE, draw
from bench.replicator import ReplicatorSide
from bench.side_by_side import BROKER_SETTINGS, GUARANTEES, SideBySide, workload_result
from bench.sides import Clusters, Side
from bench.table import comparison_table, delay_table, summary_table
from bench.workloads import DELAY, NAMES, QUICK_FACTOR, WORKLOADS, Workload
from srm_common.errors import SrmError
from srm_common.testing import LocalKafka
from srm_common.testing.artifacts import DEFAULT_KAFKA_VERSION, mirror_maker_jars

SIDES: dict[str, Callable[[], Side]] = {"mm2": MirrorMakerSide, "srm": ReplicatorSide}

console = Console(width=None if sys.stdout.isatty() else 130)


@click.command(help=f"Copies WORKLOADs (default: all of {', '.join(NAMES)}) by MirrorMaker 2 and by this project.")
@click.argument("workloads", nargs=-1, type=click.Choice(list(NAMES)))
@click.option("--quick", is_flag=True, help="An eighth of the data (20 s of delay) and one round; no figures to quote.")
@click.option("--scale", type=float, default=1.0, show_default=True, help="Times the default amount of data.")
@click.option("--rounds", type=click.IntRange(1), help="Rounds of each; figures are medians.  [default: 3, quick: 1]")
@click.option("--guarantee", type=click.Choice([*GUARANTEES, "both"]), default="both", show_default=True)
@click.option(
    "--side",
    type=click.Choice([*SIDES, "both"]),
    default="both",
    show_default=True,
    help="One side alone prints its figures and saves nothing.",
)
@click.option(
    "--kafka",
    "kafka_version",
    default=DEFAULT_KAFKA_VERSION,
    show_default=True,
    help="Version of the brokers and of MirrorMaker 2.",
)
@click.option(
    "--output", type=click.Path(path_type=Path), default=results.LATEST, show_default="bench/results/latest.json"
)
@click.option("--save/--no-save", default=None, help="Write the results file and the picture.  [default: not if quick]")
@click.option(
    "--directory", type=click.Path(path_type=Path), help="For brokers' data and logs; kept.  [default: temporary]"
)
def main(
    workloads: tuple[str, ...],
    quick: bool,
    scale: float,
    rounds: int | None,
    guarantee: str,
    side: str,
    kafka_version: str,
    output: Path,
    save: bool | None,
    directory: Path | None,
) -> None:  # fmt: skip
    scale *= QUICK_FACTOR if quick else 1.0
    chosen = [WORKLOADS[name].scaled(scale) for name in workloads or WORKLOADS if name != DELAY]
    delay_seconds = max(delay.LEAST_SECONDS, delay.SECONDS * scale) if DELAY in (workloads or NAMES) else 0.0
    guarantees = tuple(GUARANTEES) if guarantee == "both" else (guarantee,)
    sides = tuple(SIDES.values()) if side == "both" else (SIDES[side],)
    saving = side == "both" and (not quick if save is None else save)
    try:
        _run(
            chosen,
            delay_seconds,
            rounds or (1 if quick else 3),
            guarantees,
            sides,
            kafka_version,
            output if saving else None,
            directory,
        )
    except (BenchError, SrmError) as failure:
        console.print(f"[red]{failure}")
        sys.exit(1)


def _run(
    workloads: list[Workload],
    delay_seconds: float,
    rounds: int,
    guarantees: tuple[str, ...],
    sides: tuple[Callable[[], Side], ...],
    kafka_version: str,
    output: Path | None,
    directory: Path | None,
) -> None:
    mirror_maker_jars(kafka_version)
    with ExitStack() as stack:
        folder = directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="srm-bench-")))
        for workload in workloads:
            with ExitStack() as clusters_stack:
                place, clusters = _new_clusters(clusters_stack, folder, workload.name, kafka_version, tls=workload.tls)
                bench = SideBySide(clusters, place, sides, _report)
                _measure(bench, workload, rounds, guarantees, len(sides), output, kafka_version)
        if delay_seconds:
            with ExitStack() as clusters_stack:
                place, clusters = _new_clusters(clusters_stack, folder, DELAY, kafka_version)
                _measure_delay(clusters, place, sides, delay_seconds, rounds, output, kafka_version)
    if output:
        result = results.read(output)
        picture = PICTURE if output == results.LATEST else output.with_suffix(".png")
        draw(result, picture)
        console.print(summary_table(result), f"saved in {output} and {picture}")


def _new_clusters(
    stack: ExitStack, folder: Path, name: str, version: str, *, tls: bool = False
) -> tuple[Path, Clusters]:
    """New brokers for every workload: no leftovers in their heaps or on the disk."""
    place = folder / f"{name}-{time.strftime('%H%M%S')}"
    certificate = make_certificate(place) if tls else None
    settings = BROKER_SETTINGS if certificate is None else BROKER_SETTINGS | certificate.broker_settings
    source, target = (
        stack.enter_context(
            LocalKafka(
                1,
                version,
                settings,
                place / side,
                tuned_for="throughput",
                name=side,
                client_protocol="SSL" if tls else "PLAINTEXT",
            )
        )
        for side in ("source", "target")
    )
    return place, Clusters(source, target, {} if certificate is None else certificate.client_properties)


def _measure_delay(
    clusters: Clusters,
    folder: Path,
    sides: tuple[Callable[[], Side], ...],
    seconds: float,
    rounds: int,
    output: Path | None,
    kafka_version: str,
) -> None:
    console.rule(f"{DELAY}: {delay.SUMMARY}")

    def report(side: str, number: int, found: delay.DelayFigures) -> None:
        console.print(f"{DELAY} {side} round {number}: {found.to_json()}", highlight=False)

    with console.status(f"copying for {seconds:.0f} s, round after round"):
        taken = delay.measure(clusters, folder, sides, seconds, rounds, report)
    entry = delay.result(taken, now())
    console.print(delay_table(entry))
    if output:
        _save(output, DELAY, entry, kafka_version)


def _measure(
    bench: SideBySide,
    workload: Workload,
    rounds: int,
    guarantees: tuple[str, ...],
    sides: int,
    output: Path | None,
    kafka_version: str,
) -> None:
    console.rule(f"{workload.name}: {workload.summary}")
    with console.status(f"writing {workload.uncompressed_bytes / 1e6:,.0f} MB"):
        started = time.monotonic()
        source = bench.prepare(workload)
    console.print(f"written in {time.monotonic() - started:.0f} s: {_described(source.to_json())}")
    with console.status("copying, round after round"):
        taken = bench.measure(workload, source, guarantees, rounds)
    measured_floor = bench.floor(workload)
    floor_json = measured_floor.to_json(source.uncompressed_bytes)
    console.print(f"socket floor: {floor_json['cpu_seconds_per_gb']:.3f} CPU-s/GB")
    if sides < 2:
        for guarantee, by_side in taken.items():
            for name, runs in by_side.items():
                console.print(f"{guarantee}, {name}, median:", medians(runs).to_json())
        return
    entry = workload_result(workload, source, taken, measured_floor, now())
    for guarantee in guarantees:
        compared = entry if guarantee == "exactly-once" else entry[guarantee.replace("-", "_")]
        console.print(comparison_table(f"{workload.name}, {guarantee}, median of {rounds}", compared))
        console.print(f"this project needs {compared['times_the_floor']:.1f} times the CPU of the socket floor")
    if output:
        _save(output, workload.name, entry, kafka_version)


def _save(output: Path, name: str, entry: Mapping[str, Any], kafka_version: str) -> None:
    entry = {**entry, "machine": machine(), "versions": versions(kafka_version)}
    results.write(output, results.merged(results.read(output), name, entry))


def _report(workload: str, guarantee: str, side: str, number: int, found: Figures) -> None:
    console.print(
        f"{workload} {guarantee} {side} round {number}: {found.mb_per_second:,.0f} MB/s, "
        f"{found.records_per_second:,.0f} records/s, {found.cpu_seconds_per_gb:.2f} CPU-s/GB "
        f"({found.cpu_seconds_per_gb_with_startup:.2f} with start-up), brokers {found.broker_cpu_seconds_per_gb:.2f}, "
        f"{found.peak_memory_mb:,.0f} MB, start-up {found.startup_seconds:.1f} s",
        highlight=False,
    )


def _described(data: dict[str, Any]) -> str:
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in data.items())


if __name__ == "__main__":
    main()
