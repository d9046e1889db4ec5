"""Time, chance and ids come from the world while one runs: kafka-python and we look them up in their modules."""

from __future__ import annotations

import gc
import random
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any
from unittest.mock import patch

from srm_common.kafka.client.connections.dialing import SILENT
from srm_common.kafka.client.connections.event_loop import EventLoop
from srm_common.kafka.client.library import Task
from tests.simulation.network import Network
from tests.simulation.world import World


@contextmanager
def _counted_tasks() -> Iterator[None]:
    """Tasks of loops are ordered and hashed by their addresses, which differ from one process to the next: here by
    their numbers."""
    numbers = count()
    make = Task.__init__

    def numbered(task: Any, coro: Any) -> None:
        task._number = next(numbers)
        make(task, coro)

    with (
        patch.object(Task, "__init__", numbered),
        patch.object(Task, "__lt__", lambda one, other: one._number < other._number),
        patch.object(Task, "__hash__", lambda task: task._number),
    ):
        yield


@contextmanager
def inside(world: World, network: Network) -> Iterator[None]:
    """Everything inside has the world's time, numbers and network, and remembers nothing of an earlier one."""
    ids = world.chance("ids")
    state = random.getstate()
    with ExitStack() as stack:
        stack.enter_context(patch.object(time, "monotonic", lambda: world.now))
        stack.enter_context(patch.object(time, "time", world.unix_seconds))
        stack.enter_context(patch.object(time, "sleep", world.sleep))
        stack.enter_context(patch.object(uuid, "uuid4", lambda: uuid.UUID(int=ids.getrandbits(128), version=4)))
        stack.enter_context(_counted_tasks())
        stack.enter_context(patch.object(EventLoop, "kernel", network))
        stack.enter_context(patch.object(socket, "socketpair", network.pair))
        random.seed(world.seed)
        stack.callback(random.setstate, state)
        SILENT.clear()
        stack.callback(SILENT.clear)
        # Finalizers of coroutines would run whenever the collector does.
        if gc.isenabled():
            gc.disable()
            stack.callback(gc.enable)
        yield
