"""Who may copy a flow: fencing by InitProducerId on the target, done by the driver alone.

Taking ownership fences the driver's id and every slot id that may have been used: the stored highest slot count, and
whatever ids of the flow the target's coordinators know (ListTransactions), MirrorMaker 2's included. Fencing only
the ids in use leaves an orphaned slot able to commit; measured, that doubled a third of the records.
"""

from __future__ import annotations

import re
import time
from typing import Any

from kafka.net.selector import NetworkSelector
from kafka.protocol.admin import ListTransactionsRequest

from srm_common.domain.flow import FlowSettings
from srm_common.domain.names import driver_transactional_id, task_transactional_id
from srm_common.domain.runs.copying import ProducerIdentity
from srm_common.errors import Fenced, FlowOwnedElsewhere, UnreachableCluster
from srm_common.kafka import codes
from srm_common.kafka.link import ClusterLink, RetriableFault
from srm_common.kafka.producer import FencedAfterRepeat, init_producer

_LIST_TRANSACTIONS_API = 66
#: So many bumps of our own in a row may have lost their answers. One more, and the epoch that is tried would be that
#: of a run which has taken the flow and made sure of it.
_OWN_BUMPS = 1


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
        timeout_seconds: float = 30.0,
        task_id_prefix: str | None = None,
    ) -> Ownership:
        """Fence everybody else and become the owner.

        Args:
            slots: how many slots this run may use.
            known_slots: the highest count any earlier run used.
            task_id_prefix: what the transactional ids of a MirrorMaker 2 begin with that has names of its own; they
                are fenced, too.

        Raises:
            UnreachableCluster, AccessDenied, ConfigError: the target does not hand out producer ids.
        """
        link = ClusterLink(flow.target, loop=NetworkSelector(slow_task_threshold_secs=0), client_id="srm-driver")
        owner = cls(flow, slots, link, timeout_seconds)
        owner._known = {task_transactional_id(flow.name, slot) for slot in range(max(slots, known_slots))}
        if task_id_prefix is not None:
            owner._prefixes.add(task_id_prefix)
            owner._known |= {f"{task_id_prefix}{slot}" for slot in range(max(slots, known_slots))}
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
        """Those of every slot that was ever used, also of runs that had more of them; fresh since the last fence."""
        return tuple(identity for _, identity in sorted(self._identities.items()))

    def refence(self) -> None:
        """Assert that the flow is still ours, and fence all slots again: orphans are refused, identities are new.

        Raises:
            FlowOwnedElsewhere: another run took the flow.
        """
        self._link.run(self._again)

    def release(self) -> None:
        """Fence once more, so that no open transaction of ours holds the last stable offset, and disconnect.

        Raises:
            FlowOwnedElsewhere: another run took the flow meanwhile; nothing was fenced.
        """
        try:
            self._link.run(self._again)
        finally:
            self._link.close()

    def abandon(self) -> None:
        """Disconnect without fencing: another run owns the flow."""
        self._link.close()

    async def _take(self) -> None:
        await self._link.open(timeout_seconds=min(self._seconds, 15.0))
        self._driver = await self._init(driver_transactional_id(self._flow.name))
        # Only now: whoever confirmed its ownership before has made all its slots' ids by then.
        self._known |= await self._listed()
        await self._fence()
        if not await self._confirm():
            await self._again()

    async def _again(self) -> None:
        sure = False
        while not sure:
            await self._confirm()
            self._known |= await self._listed()
            await self._fence()
            # Once more: a run that took the flow meanwhile may use slots that were not fenced here.
            sure = await self._confirm()

    async def _confirm(self) -> bool:
        """Bump the driver's own epoch, which the coordinator refuses when a newer run has taken the flow.

        False when the answer may mean another run's bump as well as our own, so that all must be fenced once more:
        the flow is taken again then, and whoever took it meanwhile is refused.
        """
        producer_id, epoch = self._driver
        for guess in range(_OWN_BUMPS + 1):
            try:
                self._driver = await self._init(driver_transactional_id(self._flow.name), producer_id, epoch + guess)
            except FencedAfterRepeat:
                continue
            except Fenced as error:
                raise self._lost() from error
            return guess == 0
        raise self._lost()

    def _lost(self) -> FlowOwnedElsewhere:
        return FlowOwnedElsewhere(
            f"another run took over flow {self._flow.name}; this one stopped and changed nothing more"
        )

    async def _fence(self) -> None:
        ids = sorted(self._known)
        futures = [self._link.loop.call_soon_with_future(self._fence_one, one) for one in ids]
        for one, future in zip(ids, futures, strict=True):
            producer_id, epoch = await future
            self._identities[one] = ProducerIdentity(one, producer_id, epoch)

    async def _fence_one(self, transactional_id: str) -> tuple[int, int]:
        return await self._init(transactional_id)

    async def _init(self, transactional_id: str, producer_id: int = -1, epoch: int = -1) -> tuple[int, int]:
        return await init_producer(
            self._link,
            transactional_id,
            transaction_timeout_ms=self._flow.transaction_timeout_ms,
            producer_id=producer_id,
            epoch=epoch,
            deadline=time.monotonic() + self._seconds,
        )

    async def _listed(self) -> set[str]:
        """Slot ids of the flow that the coordinators know (KIP-664; brokers before 3.0 cannot tell)."""
        if _LIST_TRANSACTIONS_API not in self._link.manager.broker_version_data.api_versions:
            return set()
        deadline = time.monotonic() + self._seconds
        while True:
            found: set[str] = set()
            fault = None
            for broker in self._link.manager.cluster.brokers():
                request: Any = ListTransactionsRequest(version=0, state_filters=[], producer_id_filters=[])
                try:
                    answer = await self._link.send(broker.node_id, request)
                except RetriableFault as error:
                    fault = str(error)
                    continue
                if answer.error_code:
                    fault = f"broker {broker.node_id}: {codes.name(answer.error_code)}"
                found |= {state.transactional_id for state in answer.transaction_states}
            if fault is None:
                pattern = re.compile(f"(?:{'|'.join(map(re.escape, self._prefixes))})\\d+")
                return {one for one in found if pattern.fullmatch(one)}
            if time.monotonic() > deadline:
                raise UnreachableCluster(
                    f"cluster {self._link.alias} could not list all its transactional ids within "
                    f"{self._seconds:g} s, so that a forgotten writer might be missed: {fault}"
                )
            # A broker that just ended leaves the metadata soon, one that loads is ready soon.
            await self._link.loop.sleep(0.1)
            await self._link.refresh()

    def __enter__(self) -> Ownership:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, FlowOwnedElsewhere):
            self.abandon()
        else:
            self.release()
