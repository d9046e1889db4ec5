"""A broker that does not list all aborted transactions in its answers, as one does whose replica was offline
(docs/compatibility.md)."""

from __future__ import annotations

from typing import Any

from srm_common.testing import FakeCluster
from srm_common.testing.fake_cluster.messages import Answer, Call
from srm_common.testing.fake_cluster.service import Waiting


def omit_aborted(cluster: FakeCluster, node: int) -> None:
    """From now on ``node`` leaves out every second aborted transaction of each answer to Fetch."""
    handlers: Any = cluster._server._handlers
    fetch = handlers["Fetch"]

    def fetched(call: Call) -> Answer | Waiting:
        waiting: Answer | Waiting = fetch(call)
        if call.node != node:
            return waiting
        if not isinstance(waiting, Waiting):
            return _without(waiting)
        attempt = waiting.attempt

        def later(final: bool) -> Answer | None:
            answer = attempt(final)
            return None if answer is None else _without(answer)

        return Waiting(waiting.seconds, later)

    handlers["Fetch"] = fetched


def _without(answer: Answer) -> Answer:
    for topic in answer["responses"]:
        for part in topic["partitions"]:
            if part.get("aborted_transactions"):
                part["aborted_transactions"] = part["aborted_transactions"][::2]
    return answer
