"""Answers that are kept for a short time, so that the same question is not asked with each request."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


@dataclass(eq=False)
class _Kept(Generic[Answer]):
    """``until``: on the clock of :class:`KeptAnswers`; infinite while it is being asked."""

    answer: Future[Answer] = field(default_factory=Future)
    until: float = math.inf


class KeptAnswers(Generic[Answer]):
    """Answers by question, for all threads. Who asks what is being asked already waits for that answer: a page sends
    several requests at once, and an answer may take seconds.

    Args:
        seconds: how long an answer is kept, counted from its arrival.
        most: how many are kept; beyond it the oldest are forgotten.
    """

    def __init__(self, seconds: float, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[Hashable, _Kept[Answer]] = {}  # the oldest first

    def __len__(self) -> int:
        with self._lock:
            return len(self._kept)

    def get(self, question: Hashable, ask: Callable[[], Answer]) -> Answer:
        """The answer to ``question``: the kept one, or what ``ask`` returns. What it raises, all who wait for it get;
        the next one asks again."""
        with self._lock:
            self._forget_old()
            known = self._kept.get(question)
            if known is None:
                if len(self._kept) >= self._most:
                    del self._kept[next(iter(self._kept))]
                mine = self._kept[question] = _Kept()
        if known is not None:
            return known.answer.result()
        try:
            answer = ask()
        except BaseException as error:
            with self._lock:
                if self._kept.get(question) is mine:
                    del self._kept[question]
            mine.answer.set_exception(error)
            raise
        with self._lock:
            mine.until = self._clock() + self._seconds
        mine.answer.set_result(answer)
        return answer

    def _forget_old(self) -> None:
        now = self._clock()
        for question in [question for question, one in self._kept.items() if one.until <= now]:
            del self._kept[question]
