"""How much of the source's answers each process holds until the target has acknowledged it: the memory of a slot,
which ``fetch.bytes`` bounds whatever the brokers do.

Buffers count as large as they are, not by what is in them: as a flow that has all of them full would.
"""

from __future__ import annotations

from contextlib import ExitStack
from unittest.mock import patch
from weakref import WeakKeyDictionary

from srm_common.kafka.client.protocol.buffers import Lease
from tests.simulation.judge import Wrong
from tests.simulation.world import Process, World

#: Two buffers for each broker; each has room for one answer and what frames it, of 1 MiB at least.
_OF_A_NODE = 2
_LEAST_BYTES, _FRAME_BYTES = 1 << 20, 1 << 16


class Memory:
    """Counts the buffers in use, while ``stack`` is open.

    Args:
        fetch_bytes: as the flow has it.
        nodes: of the source.
    """

    def __init__(self, world: World, stack: ExitStack, fetch_bytes: int, nodes: int) -> None:
        share = max(fetch_bytes, nodes * _LEAST_BYTES)
        self.limit = _OF_A_NODE * (share + nodes * _FRAME_BYTES)
        #: The most that one process had in use.
        self.most = 0
        self._used: WeakKeyDictionary[Process, int] = WeakKeyDictionary()
        #: As they were when they were taken: one that was too small for an answer has grown since.
        self._sizes: WeakKeyDictionary[Lease, int] = WeakKeyDictionary()
        hold, release = Lease.hold, Lease.release

        def count(size: int) -> None:
            process = world.me()
            used = self._used[process] = self._used.get(process, 0) + size
            self.most = max(self.most, used)

        def held(lease: Lease) -> None:
            if not lease.in_use:
                self._sizes[lease] = lease.size
                count(lease.size)
            hold(lease)

        def released(lease: Lease) -> None:
            release(lease)
            if not lease.in_use:
                count(-self._sizes.pop(lease))

        stack.enter_context(patch.object(Lease, "hold", held))
        stack.enter_context(patch.object(Lease, "release", released))

    def check(self) -> None:
        """Raises Wrong where a process had more in use than the flow's settings allow."""
        if self.most > self.limit:
            raise Wrong(f"a slot had {self.most:,} bytes of answers in use, where {self.limit:,} are the most")
