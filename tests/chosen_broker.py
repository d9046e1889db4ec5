"""Links that are answered by a broker of the test's choice, where any broker may be asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from srm_common.kafka.client.connections.connections import FrameConnectionManager

_of_any = FrameConnectionManager.ready_node


def answered_by(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """From now on by the one at ``host:port``, in its cluster, as long as it answers. A link begins with its bootstrap
    servers, which are the caller's to choose."""
    port = int(address.rpartition(":")[2])

    async def ready_node(manager: FrameConnectionManager, but: Sequence[Any] = ()) -> Any:
        nodes = manager.cluster.brokers()
        wanted = [node.node_id for node in nodes if node.port == port and node.node_id not in but]
        others = [node.node_id for node in nodes if node.node_id not in wanted]
        return await _of_any(manager, others if wanted else but)

    monkeypatch.setattr(FrameConnectionManager, "ready_node", ready_node)
