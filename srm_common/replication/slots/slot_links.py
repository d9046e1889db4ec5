"""The links of a slot to its two clusters, over connections that its process keeps for the next slot."""

from __future__ import annotations

from contextlib import ExitStack

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.runs.copying import CopyJob, SlotTask
from srm_common.kafka.client.closing import Closing
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.client.logins.current_login import taken_elsewhere


class SlotLinks(Closing):
    """Links to source and target.

    The connections stay for the next slot only if this one says that :meth:`nothing_in_flight` is left of it.
    Otherwise the event loop is closed as well: what a slot has left to do there, such as a request that waits to be
    sent again, must not go on beside the next slot.

    Args:
        pool: of the process, in one loop; None: the slot is its only one.
    """

    def __init__(self, job: CopyJob, task: SlotTask, pool: LinkPool | None) -> None:
        self._job, self._task = job, task
        #: Whether there may be a next slot.
        self.pooled = pool is not None
        self._pool = LinkPool(one_loop=True) if pool is None else pool
        self._nothing_in_flight = False
        for cluster in (job.source, job.target):
            taken_elsewhere(cluster)  # by the driver
        with ExitStack() as undo:
            undo.callback(self._pool.close)
            self.source = self._link(job.source)
            undo.callback(self.source.close, keep=False)
            self.target = self._link(job.target)
            undo.pop_all()
        # What is left was made for other addresses, or with a login that has changed since.
        self._pool.close_idle()

    def _link(self, cluster: ClusterSettings) -> ClusterLink:
        part, timeout_ms = f"slot-{self._task.slot}", self._job.request_timeout_ms
        return ClusterLink(cluster, pool=self._pool, part=part, request_timeout_ms=timeout_ms)

    async def open_source(self) -> None:
        """Raises as :meth:`ClusterLink.open`."""
        topics = {spec.upstream_topic for spec in self._task.ranges}
        await self.source.open(topics, self._job.retry_timeout_seconds)

    async def open_target(self) -> None:
        """Raises as :meth:`ClusterLink.open`."""
        job = self._job
        topics = {spec.downstream_topic for spec in self._task.ranges} | {job.offsets_topic, job.segments_topic}
        if job.error_handling.dead_letters is not None:
            topics.add(job.error_handling.dead_letters.name)
        await self.target.open(topics, job.retry_timeout_seconds)

    def nothing_in_flight(self) -> None:
        """The slot has come to its end, and nothing of it is left to be sent or to be answered."""
        self._nothing_in_flight = True

    def close(self) -> None:
        """Keep the connections, or close them and the loop."""
        keep = self.pooled and self._nothing_in_flight
        self.source.close(keep=keep)
        self.target.close(keep=keep)
        if not keep:
            self._pool.close()
