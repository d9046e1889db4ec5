"""Ownership of a flow: fencing by InitProducerId on the target, done by the driver alone.

Taking ownership fences the driver's id and every slot id that may have been used: the stored highest slot count, and
whatever ids of the flow the target's coordinators know (ListTransactions), MirrorMaker 2's included. Fencing only
the ids in use leaves an orphaned slot able to commit; measured, that doubled a third of the records.

Why two runs never both own a flow, whichever responses are lost (KIP-360; ``TransactionMetadata`` of Kafka):

The coordinator keeps the current epoch of the driver's id and the previous one. An InitProducerId without an epoch
*takes*: the epoch is bumped, and the previous one is forgotten. One with an epoch *asserts*: if it names the current
epoch, the epoch is bumped; if it names the previous one, it counts as a retry: nothing changes, and the current epoch
is returned. Anything else is refused. A coordinator that moved has forgotten the previous epoch.

1. A run continues with an epoch only if it was returned to a take of its own, or to an assertion of the epoch that it
   held. So no two runs ever hold the same epoch: a take makes a new one; an assertion of epoch *e* returns *e* + 1, and
   only the one run that held *e* sends it. At most one run therefore holds one of the two epochs that the coordinator
   accepts, and all others are refused from then on.
2. An assertion whose response was lost may be refused when it is repeated, because the coordinator moved in between:
   *e* + 1 may be our own, or what another run has just taken. So *e* + 1 is asserted as a question. If that is
   accepted, no other run has asserted itself twice since it took the flow, because both epochs would then be beyond
   *e* + 1. The epoch that is returned is never used, since the other run may hold it, too. Instead, the flow is taken,
   which refuses that run for good, and everything is fenced again.
3. A run believes that it owns the flow only after two assertions that follow its take. So a question is accepted only
   while the other run does not believe so yet, and only a later take stops a run that does.
4. Between question and take the other run may assert itself for the second time. Then the take does not return the
   epoch after the question's, and the run that asked stops, as the other one does at its next assertion: the next run
   takes the flow.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.names import driver_transactional_id, task_transactional_id
from srm_common.domain.runs.copying import ProducerIdentity
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import Fenced, FlowOwnedElsewhere
from srm_common.kafka.client.links.link import LATEST, ClusterLink
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.transactions.coordinators import transaction_states
from srm_common.kafka.transactions.producer import FencedAfterRepeat, init_producer

#: A partition without a leader must not hold up the others.
_LOG_END_SECONDS = 5.0


class Ownership:
    """The driver's hold on a flow. Use :meth:`take`; a context manager that releases at its end."""

    def __init__(self, flow: FlowSettings, slots: int, link: ClusterLink, seconds: float) -> None:
        self._flow = flow
        self._slots = slots
        self._link = link
        self._seconds = seconds
        self._driver: tuple[int, int] = (-1, -1)
        self._known: set[str] = set()
        self._prefixes = {task_transactional_id(flow.name, 0)[:-1]}
        self._identities: dict[str, ProducerIdentity] = {}

    @classmethod
    def take(
        cls,
        flow: FlowSettings,
        slots: int,
        known_slots: int,
        *,
        timeout_seconds: float | None = None,
        task_id_prefix: str | None = None,
        pool: LinkPool | None = None,
    ) -> Ownership:
        """Fence all other owners and become the owner.

        Args:
            slots: how many slots this run may use.
            known_slots: the highest count any earlier run used.
            timeout_seconds: how long the target may take to respond, here and in each :meth:`refence`; by default the
                flow's ``patience_seconds``.
            task_id_prefix: prefix of the transactional ids of a MirrorMaker 2 with names of its own; they are fenced,
                too.
            pool: of the target's connections.

        Raises:
            UnreachableCluster, AccessDenied, ConfigError: the target does not hand out producer ids.
        """
        link = ClusterLink(flow.target, part="driver", pool=pool)
        owner = cls(flow, slots, link, flow.patience_seconds if timeout_seconds is None else timeout_seconds)
        if task_id_prefix is not None:
            owner._prefixes.add(task_id_prefix)
        owner._know(max(slots, known_slots))
        try:
            link.run(owner._take)
        except BaseException:
            link.close()
            raise
        return owner

    @property
    def identities(self) -> tuple[ProducerIdentity, ...]:
        """One per slot, in slot order; fresh since the last fence."""
        return tuple(self._identities[task_transactional_id(self._flow.name, slot)] for slot in range(self._slots))

    @property
    def all_identities(self) -> tuple[ProducerIdentity, ...]:
        """One per slot that was ever used, also by runs with more slots; fresh since the last fence."""
        return tuple(identity for _, identity in sorted(self._identities.items()))

    def log_ends(self, partitions: Iterable[TopicPartition], *, surely: bool = False) -> dict[TopicPartition, int]:
        """End offsets of logs on the target; a partition without a response is left out.

        Args:
            surely: several brokers are asked for the leaders: the log of one that was deposed ends earlier.
        """
        wanted = list(partitions)

        async def ask() -> dict[TopicPartition, int]:
            await self._link.track({topic for topic, _ in wanted})
            if surely:
                await self._link.agree()
            found, _ = await self._link.offsets(wanted, LATEST, committed=False, timeout_seconds=_LOG_END_SECONDS)
            return found

        return self._link.run(ask) if wanted else {}

    def assert_held(self) -> None:
        """Assert that the flow is still ours. Only this tells a run with nothing to copy that another run took the
        flow, whose record it would otherwise overwrite. Slots are fenced only if a response was lost; the identities
        that they had are then refused.

        Raises:
            FlowOwnedElsewhere: another run took the flow.
        """
        self._link.run(self._still_held)

    def refence(self) -> None:
        """Assert that the flow is still ours, and fence all slots again: orphans are refused, identities are new.

        Raises:
            FlowOwnedElsewhere: another run took the flow.
        """
        self._link.run(self._again)

    def include(self, known_slots: int) -> None:
        """Fence the ids of ``known_slots`` slots as well, now and from now on.

        Raises:
            FlowOwnedElsewhere: another run took the flow.
        """
        self._know(known_slots)
        self._link.run(self._again)

    def _know(self, slots: int) -> None:
        self._known |= {f"{prefix}{slot}" for prefix in self._prefixes for slot in range(slots)}

    def release(self) -> None:
        """Fence once more, so that no open transaction of ours holds back the last stable offset, and disconnect.

        Raises:
            FlowOwnedElsewhere: another run took the flow meanwhile; nothing was fenced.
        """
        try:
            self._link.run(self._again)
        finally:
            self._link.close()

    def abandon(self, *, ours: bool = False) -> None:
        """Disconnect without fencing: another run owns the flow, or nothing was done with it.

        Args:
            ours: assert first that the flow is still ours.

        Raises:
            FlowOwnedElsewhere: it is not.
        """
        try:
            if ours:
                self.assert_held()
        finally:
            self._link.close()

    async def _take(self) -> None:
        deadline = time.monotonic() + self._seconds
        await self._link.open(timeout_seconds=self._seconds)
        self._driver = await self._init(driver_transactional_id(self._flow.name), deadline)
        await self._make_sure(deadline)

    async def _again(self) -> None:
        await self._make_sure(time.monotonic() + self._seconds)

    async def _still_held(self) -> None:
        deadline = time.monotonic() + self._seconds
        if not await self._confirm(deadline):
            await self._make_sure(deadline)

    async def _make_sure(self, deadline: float) -> None:
        """Assert ownership, fence every slot, and assert ownership again, all before ``deadline``."""
        sure = False
        while not sure:
            first = await self._confirm(deadline)
            # Only now: any owner that asserted itself before has created all its slots' ids by this time.
            self._known |= await self._listed(deadline)
            await self._fence(deadline)
            # Once more: a run that took the flow meanwhile may use slots that were not fenced here.
            sure = await self._confirm(deadline) and first

    async def _confirm(self, deadline: float) -> bool:
        """Bump the driver's own epoch, which the coordinator refuses when a newer run has taken the flow.

        False if the flow had to be taken again, because a lost response left open who holds the current epoch:
        everything must then be fenced again, and two assertions must follow.
        """
        name = driver_transactional_id(self._flow.name)
        producer_id, epoch = self._driver
        try:
            self._driver = await self._init(name, deadline, producer_id, epoch)
            return True
        except FencedAfterRepeat:
            pass  # perhaps by our own bump, as the next request finds out
        except Fenced as error:
            raise taken_over(self._flow) from error
        try:
            asked = await self._init(name, deadline, producer_id, epoch + 1)
        except Fenced as error:
            raise taken_over(self._flow) from error
        self._driver = await self._init(name, deadline)
        if self._driver != (asked[0], asked[1] + 1):
            raise taken_over(self._flow)
        return False

    async def _fence(self, deadline: float) -> None:
        ids = sorted(self._known)
        futures = [self._link.loop.call_soon_with_future(self._init, one, deadline) for one in ids]
        for one, future in zip(ids, futures, strict=True):
            producer_id, epoch = await future
            self._identities[one] = ProducerIdentity(one, producer_id, epoch)

    async def _init(
        self, transactional_id: str, deadline: float, producer_id: int = -1, epoch: int = -1
    ) -> tuple[int, int]:
        return await init_producer(
            self._link,
            transactional_id,
            transaction_timeout_ms=self._flow.transaction_timeout_ms,
            producer_id=producer_id,
            epoch=epoch,
            deadline=deadline,
        )

    async def _listed(self, deadline: float) -> set[str]:
        """Slot ids of the flow that the coordinators know (KIP-664; not available from brokers before 3.0)."""
        untold = (
            f"cluster {self._link.alias} could not list all its transactional ids within {self._seconds:g} s, so a "
            f"forgotten writer might be missed"
        )
        pattern = re.compile(f"(?:{'|'.join(map(re.escape, self._prefixes))})\\d+")
        return {one for one in await transaction_states(self._link, deadline, untold) if pattern.fullmatch(one)}

    def __enter__(self) -> Ownership:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, FlowOwnedElsewhere):
            self.abandon()
        else:
            self.release()


def taken_over(flow: FlowSettings) -> FlowOwnedElsewhere:
    """The error of a run that another one has fenced."""
    return FlowOwnedElsewhere(f"another run took over flow {flow.name}; this one stopped and changed nothing more")
