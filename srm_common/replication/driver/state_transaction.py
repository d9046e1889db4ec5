"""Writes records of state topics in one transaction of the flow's owner: all or none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from srm_common.domain.flow import FlowSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import StateUnavailable
from srm_common.kafka.client import codes
from srm_common.kafka.client.link import ClusterLink, RetriableFault
from srm_common.kafka.state.state_writer import NewRecord
from srm_common.kafka.transactions.producer import Producer, UncertainCommit
from srm_common.replication.driver.ownership import Ownership
from srm_common.replication.slots.state_batches import produce_state
from srm_common.wire.plain_records import Entry


def write_transaction(flow: FlowSettings, owner: Ownership, records: Iterable[NewRecord]) -> None:
    """Write ``records`` to the target by the identity of the flow's first slot, which ``owner`` holds.

    A run that takes the flow meanwhile makes it fail, so that nothing newer is ever overwritten.

    Raises:
        Fenced: another run took the flow; nothing was written.
        StateUnavailable: the target was not able to; nothing is lost, do it again.
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    homes: dict[TopicPartition, list[NewRecord]] = defaultdict(list)
    for record in records:
        homes[TopicPartition(record.topic, record.partition)].append(record)
    with ClusterLink(flow.target, part="driver", request_timeout_ms=flow.request_timeout_ms) as link:
        link.run(lambda: _write(flow, owner, link, homes))


async def _write(
    flow: FlowSettings, owner: Ownership, link: ClusterLink, homes: dict[TopicPartition, list[NewRecord]]
) -> None:
    topics = {topic for topic, _ in homes}
    await link.open(topics)
    producer = Producer(
        link,
        owner.identities[0],
        transactions_v2=await link.finalized_feature("transaction.version") >= 2,
        transaction_timeout_ms=flow.transaction_timeout_ms,
        retry_seconds=flow.retry_timeout_seconds,
    )
    try:
        refused = await producer.add(homes)
        if refused:
            raise RetriableFault(codes.name(min(refused.values())))
        for home, some in homes.items():
            entries: list[Entry] = [(record.key, record.value, record.headers) for record in some]
            await produce_state(producer, link, home, entries, flow.request_timeout_ms)
        await producer.commit()
    except (RetriableFault, UncertainCommit) as error:
        raise StateUnavailable(
            f"the state of flow {flow.name} could not be written to {', '.join(sorted(topics))}: {error}; "
            f"nothing is lost, do it again"
        ) from error
