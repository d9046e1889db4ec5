"""Progress of a run on a terminal: one bar per topic, and the rate."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from srm_common.domain.amount import counted
from srm_common.domain.runs.partition_track import Progress, TopicProgress

#: Bars at a time; the busiest topics are shown, the others are counted.
_ROWS = 12
#: The period over which the rate is measured.
_RATE_SECONDS = 5.0


class RunProgress:
    """Give it to ``replicate`` as ``progress``; use it as a context manager around the run.

    The first lines show as soon as the run knows what there is to copy. Offsets, not records, while a pass runs: the
    workers count records when they are done.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._clock = clock
        self._samples: list[tuple[float, int]] = []
        self._lock = threading.Lock()

    def __enter__(self) -> RunProgress:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __call__(self, progress: Progress) -> None:
        with self._lock:
            self._live.update(self.picture(progress), refresh=True)

    def picture(self, progress: Progress) -> Group:
        """What is on the screen at one moment."""
        rate = self._rate(progress.done)
        busy = sorted(
            (topic for topic in progress.topics if topic.left or topic.done or topic.failed),
            key=lambda topic: (-topic.left, -topic.done, topic.topic),
        )
        rows = Table.grid(padding=(0, 2))
        for topic in busy[:_ROWS]:
            rows.add_row(*_row(topic))
        rest = len(progress.topics) - len(busy[:_ROWS])
        what = "copying" if progress.copying else "waiting for new records"
        line = (
            f"{progress.flow}  {what}, pass {progress.passes}, {progress.elapsed_seconds:.0f} s: "
            f"{progress.done:,} offsets copied, {rate:,.0f}/s, lag {progress.left:,}"
        )
        parts: list[Table | Text] = [Text(line, style="bold"), rows]
        if rest:
            parts.append(Text(counted(rest, "more topic"), style="dim"))
        return Group(*parts)

    def _rate(self, done: int) -> float:
        now = self._clock()
        self._samples.append((now, done))
        while len(self._samples) > 2 and now - self._samples[1][0] > _RATE_SECONDS:
            del self._samples[0]
        begun, before = self._samples[0]
        return max(0.0, (done - before) / (now - begun)) if now > begun else 0.0


def _row(topic: TopicProgress) -> tuple[Text, ProgressBar, Text, Text]:
    total = topic.done + topic.left
    share = 100.0 * topic.done / total if total else 100.0
    state = Text(f"{topic.failed} failed", style="red") if topic.failed else Text(f"lag {topic.left:,}")
    return (
        Text(topic.topic, overflow="ellipsis"),
        ProgressBar(total=max(total, 1), completed=topic.done if total else 1, width=30),
        Text(f"{share:5.1f} %", justify="right"),
        state,
    )
