"""Whom a request goes to that any broker answers."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from srm_common.kafka.client.connections import any_answer
from srm_common.kafka.client.connections.event_loop import EventLoop
from srm_common.kafka.client.library import Future


class Brokers:
    """Brokers 1 to 3. Between two looks, one that was asked sends a part of so many bytes, the last of which completes
    its answer; one without parts is silent. Those that have no entry answer at once."""

    patience_ms = None

    def __init__(self, parts: dict[int, list[int]]) -> None:
        self.loop = EventLoop()
        self.cluster = SimpleNamespace(brokers=lambda: [1, 2, 3])
        self.asked: list[int] = []
        self._parts = {node: [*each] for node, each in parts.items()}
        # What they have sent to earlier requests is no sign of life.
        self._heard = {1: 5000, 2: 300, 3: 0}
        self._answers = {node: Future() for node in self._heard}

    async def ready_node(self, but: Sequence[int]) -> int:
        return min({1, 2, 3} - {*but})

    def connected(self, node: int) -> Any:
        def send_request(request: object, patience_ms: float | None) -> Any:
            self.asked.append(node)
            if node not in self._parts:
                self._answers[node].success(f"of {node}")
            return self._answers[node]

        return SimpleNamespace(connected=True, paused=(), send_request=send_request)

    def heard_bytes(self, nodes: Sequence[int]) -> int:
        for node in {*nodes} & {*self.asked}:
            left = self._parts.get(node)
            if left:
                self._heard[node] += left.pop()
                if not left:
                    self._answers[node].success(f"of {node}")
        return sum(self._heard[node] for node in nodes)


@pytest.mark.parametrize(
    ("parts", "asked"),
    [({1: [10] * 20}, [1]), ({1: [], 2: [10] * 20}, [1, 2]), ({1: [], 2: []}, [1, 2, 3])],
    ids=["a long answer arrives slowly", "the second sends", "one after the other is silent"],
)
def test_another_broker_is_asked_only_while_those_before_are_silent(
    monkeypatch: pytest.MonkeyPatch, parts: dict[int, list[int]], asked: list[int]
) -> None:
    monkeypatch.setattr(any_answer, "NEXT_BROKER_SECONDS", 0.001)
    brokers = Brokers(parts)
    assert brokers.loop.run(lambda: any_answer.any_answer(brokers, object)) == f"of {asked[-1]}"
    assert brokers.asked == asked
    brokers.loop.close()
