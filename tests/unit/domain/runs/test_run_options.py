from __future__ import annotations

from srm_common.domain.runs.progress import Progress, TopicProgress, by_topic
from srm_common.domain.runs.run_options import RunOptions


def test_without_expressions_everything_is_wanted() -> None:
    assert RunOptions("r").wants("orders")


def test_expressions_narrow() -> None:
    options = RunOptions("r", topics=("orders.*", "clicks"), topics_exclude=("orders-eu",))
    assert [topic for topic in ("orders-us", "orders-eu", "clicks", "clicks-2") if options.wants(topic)] == [
        "orders-us",
        "clicks",
    ]
    # An empty list of topics is a list, and matches nothing.
    assert not RunOptions("r", topics=()).wants("orders")


def test_topics_add_up_their_partitions() -> None:
    parts = [TopicProgress("b", 1, 2, 3, 4), TopicProgress("a", 1, 1, 1, 1), TopicProgress("b", 10, 20, 30, 40, 1)]
    topics = by_topic(parts)
    assert topics == (TopicProgress("a", 1, 1, 1, 1), TopicProgress("b", 11, 22, 33, 44, 1))
    progress = Progress("a->b", 1, True, 2.0, topics)
    assert (progress.done, progress.left, progress.records, progress.bytes) == (12, 23, 34, 45)
