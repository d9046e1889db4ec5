"""From clock readings to figures, medians and ratios. Pure arithmetic.

MB and GB are 10**6 and 10**9 bytes of uncompressed records (keys plus values). The *copy* runs from the first record
seen on the target to the last one committed there; what the process did before is its start-up, what it does after
is its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import median


@dataclass(frozen=True)
class Reading:
    """One look at clock and CPU counters, all in seconds."""

    at: float
    cpu_seconds: float
    broker_cpu_seconds: float


@dataclass(frozen=True)
class Measured:
    """One run. ``copied_at_first`` is how much of it (0..1) was already there when the first record was seen."""

    started: Reading
    first: Reading
    done: Reading
    ended: Reading
    peak_memory_bytes: int
    copied_at_first: float


@dataclass(frozen=True)
class Figures:
    """One run, or the medians of several."""

    wall_seconds: float
    startup_seconds: float
    mb_per_second: float
    records_per_second: float
    cpu_seconds_per_gb: float
    cpu_seconds_per_gb_with_startup: float
    startup_cpu_seconds: float
    end_cpu_seconds: float
    broker_cpu_seconds_per_gb: float
    peak_memory_mb: float

    def to_json(self) -> dict[str, float]:
        """Rounded to four significant places behind the point."""
        return {name: round(value, 4) for name, value in asdict(self).items()}


def figures(run: Measured, uncompressed_bytes: int, records: int) -> Figures:
    """Per second and per GB of the copy; bytes that were there at its beginning are not counted for it."""
    wall = run.done.at - run.first.at
    share = 1.0 - run.copied_at_first
    if wall <= 0 or share <= 0:
        raise ValueError("the copy ended before its start was seen; use more data")
    gigabytes = uncompressed_bytes * share / 1e9
    return Figures(
        wall_seconds=wall,
        startup_seconds=run.first.at - run.started.at,
        mb_per_second=uncompressed_bytes * share / 1e6 / wall,
        records_per_second=records * share / wall,
        cpu_seconds_per_gb=(run.done.cpu_seconds - run.first.cpu_seconds) / gigabytes,
        cpu_seconds_per_gb_with_startup=(run.ended.cpu_seconds - run.started.cpu_seconds) / (uncompressed_bytes / 1e9),
        startup_cpu_seconds=run.first.cpu_seconds - run.started.cpu_seconds,
        end_cpu_seconds=run.ended.cpu_seconds - run.done.cpu_seconds,
        broker_cpu_seconds_per_gb=(run.done.broker_cpu_seconds - run.first.broker_cpu_seconds) / gigabytes,
        peak_memory_mb=run.peak_memory_bytes / 1e6,
    )


def medians(rounds: Sequence[Figures]) -> Figures:
    """Each figure's median by itself. Raises ValueError without rounds."""
    if not rounds:
        raise ValueError("no rounds to take the median of")
    return Figures(**{field.name: median(getattr(each, field.name) for each in rounds) for field in fields(Figures)})


def ratio(mm2: Figures, srm: Figures) -> dict[str, float]:
    """How many times better this project is: CPU-seconds per GB of the copy, and bytes per second."""
    return {
        "cpu": round(mm2.cpu_seconds_per_gb / srm.cpu_seconds_per_gb, 2),
        "throughput": round(srm.mb_per_second / mm2.mb_per_second, 2),
    }


def other_ratios(mm2: Figures, srm: Figures) -> dict[str, float]:
    """Further figures, greater is better for this project too."""
    return {
        "cpu_with_startup": round(mm2.cpu_seconds_per_gb_with_startup / srm.cpu_seconds_per_gb_with_startup, 2),
        "broker_cpu": round(mm2.broker_cpu_seconds_per_gb / srm.broker_cpu_seconds_per_gb, 2),
        "memory": round(mm2.peak_memory_mb / srm.peak_memory_mb, 2),
    }


def comparison(rounds: Mapping[str, Sequence[Figures]]) -> dict[str, object]:
    """``{"mm2": [...], "srm": [...]}`` to medians, ratios and the rounds themselves, ready for JSON."""
    mm2, srm = medians(rounds["mm2"]), medians(rounds["srm"])
    return {
        "mm2": mm2.to_json(),
        "srm": srm.to_json(),
        "ratio": ratio(mm2, srm),
        "other_ratios": other_ratios(mm2, srm),
        "rounds": {side: [each.to_json() for each in runs] for side, runs in rounds.items()},
    }
