from dataclasses import replace

import pytest

from bench.figures import Figures, Measured, Reading, comparison, figures, medians, other_ratios, ratio

RUN = Measured(
    started=Reading(100.0, 0.0, 50.0),
    first=Reading(110.0, 8.0, 52.0),
    done=Reading(120.0, 18.0, 56.0),
    ended=Reading(123.0, 19.0, 57.0),
    peak_memory_bytes=1_500_000_000,
    copied_at_first=0.0,
)


def made(cpu: float = 10.0, speed: float = 100.0) -> Figures:
    return replace(figures(RUN, 2_000_000_000, 2_000_000), cpu_seconds_per_gb=cpu, mb_per_second=speed)


def test_the_copy_alone_counts_for_speed_and_cpu_time() -> None:
    found = figures(RUN, 2_000_000_000, 2_000_000)
    assert (found.wall_seconds, found.startup_seconds) == (10.0, 10.0)
    assert (found.mb_per_second, found.records_per_second) == (200.0, 200_000.0)
    assert found.cpu_seconds_per_gb == 5.0
    assert found.broker_cpu_seconds_per_gb == 2.0
    assert (found.startup_cpu_seconds, found.end_cpu_seconds) == (8.0, 1.0)
    assert found.peak_memory_mb == 1500.0


def test_with_start_up_everything_from_launch_to_end_counts() -> None:
    assert figures(RUN, 2_000_000_000, 2_000_000).cpu_seconds_per_gb_with_startup == 9.5


def test_what_was_there_when_first_looked_at_is_not_counted_for_the_copy() -> None:
    found = figures(replace(RUN, copied_at_first=0.5), 2_000_000_000, 2_000_000)
    assert found.mb_per_second == 100.0
    assert found.cpu_seconds_per_gb == 10.0
    assert found.cpu_seconds_per_gb_with_startup == 9.5


def test_a_copy_too_short_to_be_seen_is_refused() -> None:
    with pytest.raises(ValueError, match="more data"):
        figures(replace(RUN, copied_at_first=1.0), 1000, 1)
    with pytest.raises(ValueError, match="more data"):
        figures(replace(RUN, done=RUN.first), 1000, 1)


def test_ratios_say_how_many_times_better_this_project_is() -> None:
    assert ratio(made(cpu=16.0, speed=100.0), made(cpu=2.0, speed=250.0)) == {"cpu": 8.0, "throughput": 2.5}
    worse = ratio(made(cpu=2.0, speed=100.0), made(cpu=4.0, speed=50.0))
    assert worse == {"cpu": 0.5, "throughput": 0.5}


def test_other_ratios_are_greater_when_this_project_needs_less() -> None:
    less = replace(made(), cpu_seconds_per_gb_with_startup=4.75, broker_cpu_seconds_per_gb=1.0, peak_memory_mb=500.0)
    assert other_ratios(made(), less) == {"cpu_with_startup": 2.0, "broker_cpu": 2.0, "memory": 3.0}


def test_medians_are_taken_figure_by_figure() -> None:
    found = medians([made(1.0, 300.0), made(2.0, 100.0), made(9.0, 200.0)])
    assert (found.cpu_seconds_per_gb, found.mb_per_second) == (2.0, 200.0)
    with pytest.raises(ValueError, match="no rounds"):
        medians([])


def test_a_comparison_has_the_agreed_shape() -> None:
    found = comparison({"mm2": [made(cpu=16.0)], "srm": [made(cpu=2.0, speed=260.0)]})
    assert found["ratio"] == {"cpu": 8.0, "throughput": 2.6}
    assert set(found) == {"mm2", "srm", "ratio", "other_ratios", "rounds"}
    mm2 = found["mm2"]
    assert isinstance(mm2, dict)
    assert mm2["cpu_seconds_per_gb"] == 16.0
