"""The terminal output: the lag of each topic's copy, and the last runs."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from demo.lag import TopicLag
from demo.stage import DAG_ID, FLOW, LOGIN
from demo.topics import TOPICS

BARS = "▁▂▃▄▅▆▇█"
HISTORY = 40
# Columns of the terminal that figures and descriptions take.
WIDTH, ABOUT = 60, 42
RUN_COLOURS = {"success": "green", "failed": "red", "running": "cyan", "queued": "yellow"}


@dataclass
class LagHistory:
    """The last lags of each topic, for the sparklines; and the rate of writing."""

    lags: dict[str, deque[int]] = field(default_factory=dict)
    _ends: dict[str, deque[tuple[float, int]]] = field(default_factory=dict)

    def add(self, rows: list[TopicLag]) -> None:
        now = time.monotonic()
        for row in rows:
            self.lags.setdefault(row.topic, deque(maxlen=HISTORY)).append(row.lag)
            self._ends.setdefault(row.topic, deque(maxlen=10)).append((now, row.end))

    def per_second(self, topic: str) -> float:
        seen = self._ends.get(topic)
        if seen is None or len(seen) < 2:
            return 0.0
        (first, before), (last, after) = seen[0], seen[-1]
        return (after - before) / (last - first) if last > first else 0.0

    def curve(self, topic: str, length: int) -> str:
        lags = list(self.lags.get(topic, ()))[-length:]
        top = max(lags, default=0) or 1
        return "".join(BARS[min(len(BARS) - 1, lag * len(BARS) // (top + 1))] for lag in lags)


def screen(rows: list[TopicLag], history: LagHistory, run_states: list[str], url: str, width: int) -> Group:
    """The whole picture, for a terminal of ``width`` columns."""
    where = Text.assemble(
        ("page  ", "dim"), (url, "bold underline"), "   ", ("login  ", "dim"), (" / ".join(LOGIN), "bold"), "   ",
        ("DAG  ", "dim"), (DAG_ID, "bold"),
    )  # fmt: skip
    explained = width >= WIDTH + ABOUT
    length = max(8, min(HISTORY, width - WIDTH - (ABOUT if explained else 0)))
    table = Table(expand=True, box=None, header_style="dim", pad_edge=False)
    table.add_column("topic", style="bold", no_wrap=True)
    if explained:
        table.add_column("what", style="dim", no_wrap=True)
    for name in ("written/s", "at source", "copied", "behind"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("over time", min_width=length, no_wrap=True)
    about = {topic.name: topic.about for topic in TOPICS}
    for row in rows:
        colour = "green" if row.lag == 0 else "yellow"
        table.add_row(
            row.topic,
            *((about.get(row.topic, ""),) if explained else ()),
            f"{history.per_second(row.topic):,.0f}",
            f"{row.end:,}",
            f"{row.position:,}",
            Text(f"{row.lag:,}", style=colour),
            Text(history.curve(row.topic, length), style=colour),
        )
    runs = Text.assemble(("runs, oldest first  ", "dim"))
    for state in reversed(run_states):
        runs.append("● ", style=RUN_COLOURS.get(state, "white"))
    if not run_states:
        runs.append("none yet: the first one starts in a moment")
    foot = Text(
        "Some flows have trouble: the page says which, why, and what helps. Pause this one and watch its lag grow. "
        "Ctrl-C ends the demo.",
        style="dim",
    )
    return Group(Panel(where, title=f"flow {FLOW}"), table, Text(), runs, Text(), foot)


def line(rows: list[TopicLag], run_states: list[str]) -> str:
    """One line, for logs and tests."""
    lags = ", ".join(f"{row.topic} {row.lag}" for row in rows)
    last = run_states[0] if run_states else "none yet"
    return f"behind: {sum(row.lag for row in rows)} ({lags}); copied: {sum(row.position for row in rows)}; run: {last}"
