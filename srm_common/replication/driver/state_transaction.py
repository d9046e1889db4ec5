"""Writes records of state topics in one transaction of the flow's owner: all or none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.copying import ProducerIdentity
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import StateUnavailable
from srm_common.kafka.client.links.link import LATEST, ClusterLink, RetriableFault
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.state.source_offsets import STABLE_WITHIN_SECONDS, read_source_offsets
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_topics import StateTopics
from srm_common.kafka.transactions.producer import Producer, UncertainCommit
from srm_common.replication.slots.state_batches import denied, produce_state
from srm_common.wire.state.mm2 import (
    SOURCE_CONNECTOR,
    copied_to_headers,
    epoch_headers,
    parse_source_offset_key,
    partition_for,
)
from srm_common.wire.state.plain_records import Entry, NewRecord


def write_transaction(
    flow: FlowSettings, identity: ProducerIdentity, records: Iterable[NewRecord], pool: LinkPool | None = None
) -> ProducerIdentity | None:
    """Write ``records`` to the target with the identity of a slot that does nothing else meanwhile.

    If another run takes the flow meanwhile, this fails, so that newer records are never overwritten.

    Returns:
        The identity that the slot continues with; None if it needs a new one.

    Raises:
        Fenced: another run took the flow; nothing was written.
        StateUnavailable: the target could not write them; nothing is lost, try again.
        StateTopicInvalid: a state topic takes no batches of that size; nothing was written.
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    homes: dict[TopicPartition, list[NewRecord]] = defaultdict(list)
    for record in records:
        homes[TopicPartition(record.topic, record.partition)].append(record)
    with ClusterLink(flow.target, part="driver", request_timeout_ms=flow.request_timeout_ms, pool=pool) as link:
        return link.run(lambda: _write(flow, identity, link, homes))


async def _write(
    flow: FlowSettings, identity: ProducerIdentity, link: ClusterLink, homes: dict[TopicPartition, list[NewRecord]]
) -> ProducerIdentity | None:
    topics = {topic for topic, _ in homes}
    await link.open(topics)
    producer = Producer(
        link,
        identity,
        transactions_v2=await link.finalized_feature("transaction.version") >= 2,
        transaction_timeout_ms=flow.transaction_timeout_ms,
        retry_seconds=flow.retry_timeout_seconds,
    )
    try:
        refused = await producer.add(homes)
        for home, code in refused.items():
            denial = code == codes.TOPIC_AUTHORIZATION_FAILED
            raise denied(link, home.topic) if denial else RetriableFault(codes.name(code))
        for home, some in homes.items():
            entries: list[Entry] = [(record.key, record.value, record.headers) for record in some]
            await produce_state(producer, link, home, entries, flow.request_timeout_ms)
        await producer.commit()
    except (RetriableFault, UncertainCommit) as error:
        raise StateUnavailable(
            f"the state of flow {flow.name} could not be written to {', '.join(sorted(topics))}: {error}; "
            f"nothing is lost, try again"
        ) from error
    return producer.identity


def rewritten_offsets(
    flow: FlowSettings, state: StateTopics, stable_within_seconds: float | None = STABLE_WITHIN_SECONDS
) -> list[NewRecord]:
    """Records that make a committed record the last one of each source offset's key; keys that were never committed get
    a tombstone. Empty if no key ends with an aborted record.

    MirrorMaker 2 without exactly-once support reads its offsets topic read_uncommitted. It believes the offset of an
    aborted transaction, and skips the records that this transaction would have copied (measured: ten records lost after
    one kill). Before a flow is handed to it, the committed offsets are written once more.

    Args:
        stable_within_seconds: how long to wait for open transactions to end; None treats them as aborted.

    Raises:
        StateUnavailable: one is still open.
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    offsets = read_source_offsets(flow, state, stable_within_seconds=stable_within_seconds, refuse_loss=False)
    topic, partitions = state.offsets_topic, range(state.offsets_partitions)
    with StateReader(flow.target) as reader, StateReader(flow.target, committed=False) as everything:
        ends = (
            reader.offsets(topic, partitions, LATEST)
            if stable_within_seconds is None
            else reader.stable_ends(topic, partitions, stable_within_seconds)
        )
        committed = reader.newest(topic, ends)
        marks = everything.offsets(topic, partitions, LATEST, committed=False)
        seen = everything.last_records(topic, ends=marks)
    records: list[NewRecord] = []
    for key, last in seen.items():
        parsed = parse_source_offset_key(key)
        if parsed is None or parsed[1] != flow.name.source:
            continue
        sure = committed.get(key)
        if sure is None or sure.offset != last.offset or sure.partition != last.partition:
            value = None if sure is None else sure.value
            place = TopicPartition(*parsed[2:])
            headers = (
                (
                    *epoch_headers(offsets.epochs.get(place, -1)),
                    *copied_to_headers(offsets.copied_to.get(place), offsets.get(place, 0)),
                )
                if parsed[0] == SOURCE_CONNECTOR
                else ()
            )
            home = partition_for(key, state.offsets_partitions)
            records.append(NewRecord(topic, home, key, value, headers=headers))
    return records
