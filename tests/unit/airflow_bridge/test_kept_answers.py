"""How long answers are kept, for whom, and how many."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import pytest

from srm_common.airflow_bridge.web.kept_answers import KeptAnswers


@dataclass
class Stage:
    """Answers are numbered, so that a new one is seen."""

    now: float = 100.0
    asked: list[str] = field(default_factory=list)

    def kept(self, seconds: float = 30.0, most: int = 10) -> KeptAnswers[int]:
        return KeptAnswers(seconds, most, lambda: self.now)

    def ask(self, question: str) -> int:
        self.asked.append(question)
        return len(self.asked)


def test_an_answer_is_kept_for_its_time_and_not_for_other_questions() -> None:
    stage = Stage()
    kept = stage.kept()
    answers = [kept.get(who, partial(stage.ask, who)) for who in ("ann", "ann", "bob", "ann")]
    assert (answers, stage.asked) == ([1, 1, 2, 1], ["ann", "bob"])
    stage.now += 29.9
    assert kept.get("ann", lambda: stage.ask("ann")) == 1
    stage.now += 0.1
    assert kept.get("ann", lambda: stage.ask("ann")) == 3


def test_the_time_begins_when_the_answer_is_there() -> None:
    """Otherwise one that takes longer would never be kept."""
    stage = Stage()
    kept = stage.kept()

    def slow() -> int:
        stage.now += 60
        return stage.ask("slow")

    assert [kept.get("slow", slow), kept.get("slow", slow)] == [1, 1]


def test_a_failure_is_not_kept() -> None:
    stage = Stage()
    kept = stage.kept()

    def failing() -> int:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        kept.get("ann", failing)
    assert len(kept) == 0
    assert kept.get("ann", lambda: stage.ask("ann")) == 1


def test_the_oldest_make_room() -> None:
    stage = Stage()
    kept = stage.kept(most=3)
    for who in "abcd":
        kept.get(who, lambda: stage.ask("first"))
    assert len(kept) == 3
    for _ in range(2):
        assert [kept.get(who, lambda: stage.ask("again")) for who in "bcd"] == [2, 3, 4], "a kept answer needs no room"
    assert kept.get("a", lambda: stage.ask("a")) == 5


@pytest.mark.parametrize("fails", [False, True])
def test_all_who_ask_at_once_get_one_answer(fails: bool) -> None:
    begun, free, waiting = threading.Event(), threading.Event(), threading.Semaphore(0)

    def clock() -> float:
        waiting.release()  # each question looks at it before anything else
        return 0.0

    kept: KeptAnswers[int] = KeptAnswers(30.0, 10, clock)

    def slow() -> int:
        begun.set()
        assert free.wait(60)
        if fails:
            raise TimeoutError
        return 1

    def again() -> int:
        raise AssertionError("asked twice")

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(kept.get, "ann", slow)
        assert begun.wait(60)
        assert kept.get("bob", lambda: 2) == 2, "somebody else need not wait"
        others = [pool.submit(kept.get, "ann", again) for _ in range(2)]
        # Twice for bob, whose answer has come.
        assert all(waiting.acquire(timeout=60) for _ in range(5))
        free.set()
        for one in (first, *others):
            if fails:
                assert isinstance(one.exception(60), TimeoutError)
            else:
                assert one.result(60) == 1
