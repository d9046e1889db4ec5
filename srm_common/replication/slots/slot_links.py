"""The links of a slot to its two clusters, in one event loop; a worker keeps their connections for its next slot."""

from __future__ import annotations

from srm_common.domain.runs.copying import CopyJob, SlotTask
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.client.logins.current_login import taken_elsewhere


class SlotLinks:
    """Links that are closed by :meth:`close`.

    Args:
        kept: what the process keeps between slots, in one loop; None: nothing.
    """

    def __init__(self, job: CopyJob, task: SlotTask, kept: LinkPool | None) -> None:
        self._job, self._task = job, task
        #: Whether connections are kept when the slot has ended.
        self.kept = kept is not None
        self._pool = LinkPool(one_loop=True) if kept is None else kept
        for cluster in (job.source, job.target):
            taken_elsewhere(cluster)  # by the driver
        self.source, self.target = (
            ClusterLink(cluster, pool=self._pool, part=f"slot-{task.slot}", request_timeout_ms=job.request_timeout_ms)
            for cluster in (job.source, job.target)
        )
        # What is left was made for other addresses, or with a login that has changed since.
        self._pool.close_idle()

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

    def close(self, *, undisturbed: bool) -> None:
        """The slot has ended. Unless it came to its end ``undisturbed``, nothing is kept: what it has left to do in
        the loop, such as a request that waits to be sent again, must not go on beside the next slot."""
        keep = self.kept and undisturbed
        self.source.close(keep=keep)
        self.target.close(keep=keep)
        if not keep:
            self._pool.close()
