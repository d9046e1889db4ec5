"""The answer to a request that any broker of a cluster can answer, although some of them may be silent."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from srm_common.kafka.client.connections.signal import Signal
from srm_common.kafka.client.library import Errors
from srm_common.kafka.client.protocol import codes

#: How long a broker may be silent about a request that any other answers as well, before another is asked, too.
NEXT_BROKER_SECONDS = 1.0
#: How soon a connection that has as many requests in flight as it may is looked at again.
_PAUSED_SECONDS = 0.001
#: How long a broker that does not know its cluster yet is asked again, and how often.
_YOUNG_SECONDS, _YOUNG_PAUSE_SECONDS = 5.0, 0.1


async def any_answer(manager: Any, make_request: Callable[[], Any]) -> Any:
    """The answer of any broker; another one is asked as well when one fails, or has sent nothing for a second. Asked
    while an answer of megabytes arrives over a slow link, it would only make that link slower.

    Args:
        manager: :class:`~srm_common.kafka.client.connections.connections.FrameConnectionManager`.
        make_request: makes an equal request for each broker that is asked.

    Raises:
        KafkaError: none answered.
    """
    signal = Signal(manager.loop)
    asked: list[Any] = []
    #: Node -> what it had sent when it was asked.
    before: dict[Any, int] = {}
    answered = False

    async def attempt() -> Any:
        node = await manager.ready_node(asked)
        before[node] = manager.heard_bytes([node])
        asked.append(node)
        connection = manager.connected(node)
        deadline = time.monotonic() + _YOUNG_SECONDS
        while not answered:
            if connection.connected and connection.paused:
                await manager.loop.sleep(max(connection.throttled_seconds(), _PAUSED_SECONDS))
                continue
            answer = await connection.send_request(make_request(), manager.patience_ms)
            if getattr(answer, "error_code", 0) == codes.REBOOTSTRAP_REQUIRED:
                raise Errors.MetadataEmptyBrokerList(f"broker {node} sends clients back to the bootstrap servers")
            # A broker with ZooKeeper that has just started answers Metadata without brokers, as if there were no
            # topics either, until the controller has told it of them. Java's clients ignore such an answer, too.
            if getattr(answer, "brokers", None) != []:
                return answer
            if time.monotonic() > deadline:
                raise Errors.MetadataEmptyBrokerList(f"broker {node} does not know its cluster yet")
            await manager.loop.sleep(_YOUNG_PAUSE_SECONDS)
        raise Errors.Cancelled("another broker has answered")

    def heard() -> int:
        return sum(manager.heard_bytes([node]) - before[node] for node in asked)

    attempts: list[Any] = []
    while True:
        if len(attempts) < max(len(manager.cluster.brokers()), 1):
            future = manager.loop.call_soon_with_future(attempt)
            future.add_both(lambda _: signal.set())
            attempts.append(future)
            await signal.silence(NEXT_BROKER_SECONDS, heard)
        elif all(one.is_done for one in attempts):
            faults = [one.exception for one in attempts]
            raise next((fault for fault in faults if not isinstance(fault, Errors.NodeNotReadyError)), faults[0])
        else:
            await signal.wait()
        for one in attempts:
            if one.succeeded():
                answered = True
                return one.value
