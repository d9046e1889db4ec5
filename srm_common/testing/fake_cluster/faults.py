"""Faults that a test injects: refusals, lost responses, silence, a cluster that disappears between two steps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

When = str | Callable[[str], bool] | None


@dataclass(eq=False)
class Fault:
    """One fault; it ends by :meth:`end`, at the end of a ``with`` block, or after ``times``."""

    api: str | None
    kind: str
    code: int = 0
    seconds: float = 0.0
    when: When = None
    times: int | None = None
    _ended: Callable[[Fault], None] = field(default=lambda fault: None, repr=False)

    def concerns(self, api: str, name: str = "") -> bool:
        """Whether the fault is about this API and this topic, group, transactional id or resource."""
        if self.api not in (None, api) or self.times == 0:
            return False
        if self.when is None:
            return True
        return self.when == name if isinstance(self.when, str) else self.when(name)

    def spend(self) -> None:
        """It has happened once."""
        if self.times is not None:
            self.times -= 1

    def end(self) -> None:
        """The cluster behaves again."""
        self._ended(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


@dataclass
class _Step:
    api: str
    left: int
    action: Callable[[], object]


class After:
    """What happens after a number of responses of an API, before another request is processed."""

    def __init__(
        self,
        add: Callable[[Callable[[], object]], None],
        go_away: Callable[[float | None], None],
        silence: Callable[[], object],
    ) -> None:
        self._add, self._go_away, self._silence = add, go_away, silence

    def go_away(self, seconds: float | None = None) -> None:
        """The cluster is gone: connections end and ports are closed; it comes back after so many seconds."""
        self._add(lambda: self._go_away(seconds))

    def silence(self) -> None:
        """Connections stay, and nothing is answered any more."""
        self._add(self._silence)

    def do(self, action: Callable[[], object]) -> None:
        """Anything else, in the cluster's thread; it must not query the cluster through a client."""
        self._add(action)


class Faults:
    """The faults of one cluster. Thread-safe."""

    def __init__(self, go_away: Callable[[float | None], None], wake: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._steps: list[_Step] = []
        self._go_away, self._wake = go_away, wake

    def add(
        self, kind: str, api: str | None, *, code: int = 0, seconds: float = 0.0, when: When = None, times: int | None
    ) -> Fault:
        fault = Fault(api, kind, code, seconds, when, times, self._end)
        with self._lock:
            self._faults.append(fault)
        return fault

    def after(self, count: int, api: str) -> After:
        def add(action: Callable[[], object]) -> None:
            with self._lock:
                self._steps.append(_Step(api, count, action))

        return After(add, self._go_away, lambda: self.add("silence", None, times=None))

    def refusal(self, api: str, name: str) -> int:
        """The code to refuse a part of a request with, 0 for none."""
        fault = self._take("refuse", api, name)
        return 0 if fault is None else fault.code

    def refusal_after(self, api: str, name: str) -> int:
        """The code to answer a part of a request with that was carried out, 0 for none."""
        fault = self._take("refuse after", api, name)
        return 0 if fault is None else fault.code

    def throttle(self, api: str) -> float:
        """Seconds that a client has to wait because its quota is used up."""
        fault = self._take("throttle", api)
        return 0.0 if fault is None else fault.seconds

    def delay(self, api: str) -> float:
        """Seconds to wait before a request is processed."""
        fault = self._take("delay", api)
        return 0.0 if fault is None else fault.seconds

    def silent(self, api: str) -> bool:
        if not self._faults:
            return False
        with self._lock:
            return any(fault.kind == "silence" and fault.concerns(api) for fault in self._faults)

    def drops(self, api: str) -> bool:
        """Whether the answer to a request that was carried out is lost."""
        return self._take("drop", api) is not None

    def loses(self, api: str) -> bool:
        """Whether a request does not arrive."""
        return self._take("lose", api) is not None

    def answered(self, api: str) -> list[Callable[[], object]]:
        """What is to happen now that one more request has been answered."""
        due: list[Callable[[], object]] = []
        if not self._steps:
            return due
        with self._lock:
            for step in list(self._steps):
                if step.api == api:
                    step.left -= 1
                    if not step.left:
                        due.append(step.action)
                        self._steps.remove(step)
        return due

    def _take(self, kind: str, api: str, name: str = "") -> Fault | None:
        if not self._faults:
            return None
        with self._lock:
            for fault in self._faults:
                if fault.kind == kind and fault.concerns(api, name):
                    fault.spend()
                    return fault
        return None

    def _end(self, fault: Fault) -> None:
        with self._lock:
            if fault in self._faults:
                self._faults.remove(fault)
        self._wake()
