from __future__ import annotations

import io

from rich.console import Console

from srm_common.cli.run_progress import RunProgress
from srm_common.domain.runs.partition_track import Progress, TopicProgress


def shown(progress: RunProgress, what: Progress) -> list[str]:
    console = Console(file=io.StringIO(), width=100)
    console.print(progress.picture(what))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def at(seconds: float, done: int, *more: TopicProgress) -> Progress:
    topics = (TopicProgress("orders[eu]", done, 1000 - done, 0, 0), *more)
    return Progress("a->b", 2, True, seconds, topics)


def test_rate_share_and_lag() -> None:
    times = iter([0.0, 2.0])
    progress = RunProgress(Console(file=io.StringIO()), clock=lambda: next(times))
    shown(progress, at(0, 0))
    first, row = shown(progress, at(2, 250))
    assert first == "a->b  copying, pass 2, 2 s: 250 offsets copied, 125/s, lag 750"
    # Brackets in names are not markup.
    assert row.startswith("orders[eu]")
    assert row.endswith("25.0 %  lag 750")


def test_idle_topics_are_counted_and_failed_ones_named() -> None:
    progress = RunProgress(Console(file=io.StringIO()))
    idle = [TopicProgress(f"idle-{n}", 0, 0, 0, 0) for n in range(3)]
    lines = shown(progress, at(1, 1000, TopicProgress("broken", 0, 5, 0, 0, failed=2), *idle))
    assert any(line.startswith("broken") and line.endswith("2 failed") for line in lines)
    assert lines[-1] == "3 more topics"
