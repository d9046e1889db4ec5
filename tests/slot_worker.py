"""Slots that are copied in the test's own process, as a Python worker of Spark copies them."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.replication.slots.slot import copy_slot


class _Worker(threading.local):
    """A thread copies one slot at a time, as a worker does."""

    def __init__(self) -> None:
        self.pool = LinkPool(one_loop=True)


_WORKER = _Worker()


def forget() -> None:
    """Close the connections of this thread."""
    _WORKER.pool.close()


def here(job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
    """A pass: one slot after the other, over the connections of the pass before."""
    return [copy_slot(job, task, pool=_WORKER.pool) for task in tasks]
