"""Ends hanging transactions of any slot that block copies; done by the driver. A slot ends its own hanging transactions
in the partitions to which it writes. But the next run may assign a partition to another slot, or to none if it has no
new records; its readers would then wait forever.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from srm_common.domain.runs.copying import CopyJob, ProducerIdentity
from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.transactions.hanging_transactions import blocked_partitions
from srm_common.kafka.transactions.producer import Producer, UncertainCommit
from srm_common.replication.slots.hanging_transactions import end_open_transactions


@dataclass(frozen=True, slots=True)
class Copy:
    """A partition and its copy."""

    upstream: TopicPartition
    downstream: TopicPartition


@dataclass(frozen=True, slots=True)
class EndedTransactions:
    """``found_any``: a hanging transaction blocked some copy, so the identities may have been used up. ``faults``: one
    sentence for each copy that one of our transactions still blocks."""

    found_any: bool = False
    faults: tuple[str, ...] = ()


def end_hanging_transactions(
    job: CopyJob, identities: Sequence[ProducerIdentity], copies: Iterable[Copy], pool: LinkPool | None = None
) -> EndedTransactions:
    """End the transactions that ``identities`` left open in ``copies``. None of the identities may be in use.

    Lists offsets twice if nothing is blocked, which is nearly always the case.

    Raises:
        Fenced: another run took the flow.
        UnreachableCluster, AccessDenied, ClusterError: the target does not respond.
    """
    wanted = {copy.downstream: copy for copy in copies}
    if not wanted:
        return EndedTransactions()
    with ClusterLink(job.target, part="driver", request_timeout_ms=job.request_timeout_ms, pool=pool) as link:
        return link.run(lambda: _free(link, job, identities, wanted))


async def _free(
    link: ClusterLink, job: CopyJob, identities: Sequence[ProducerIdentity], wanted: dict[TopicPartition, Copy]
) -> EndedTransactions:
    patience = job.retry_timeout_seconds
    deadline = time.monotonic() + patience
    await link.open({topic for topic, _ in wanted} | {job.offsets_topic, job.segments_topic}, patience)
    held = await blocked_partitions(link, set(wanted))
    if not held:
        return EndedTransactions()
    transactions_v2 = await link.finalized_feature("transaction.version", patience) >= 2
    faults: list[str] = []
    for identity in identities:
        producer = Producer(
            link,
            identity,
            transactions_v2=transactions_v2,
            transaction_timeout_ms=job.transaction_timeout_ms,
            retry_seconds=patience,
        )
        await producer.start()
        try:
            errors = await end_open_transactions(
                job, link, producer, [wanted[place] for place in sorted(held)], deadline=deadline
            )
        except UncertainCommit as error:
            faults.append(str(error))
            continue
        faults += [str(error) for error in errors.values()]
    return EndedTransactions(found_any=True, faults=tuple(faults))
