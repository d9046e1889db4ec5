"""Before a flow is handed to a reader that is not read_committed: say the committed source offsets once more.

MirrorMaker 2 without exactly-once support reads its offsets topic read_uncommitted. It believes the offset of a
transaction that was aborted, and leaves out the records which that one would have copied (measured: ten records lost
after one kill).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator

from srm_common.domain.flow import FlowSettings
from srm_common.errors import StateUnavailable
from srm_common.kafka import codes
from srm_common.kafka.compacted import LATEST, StateReader, last_of_each_key
from srm_common.kafka.frames import RawProduce
from srm_common.kafka.link import ClusterLink, Partition, RetriableFault
from srm_common.kafka.producer import Producer, UncertainCommit
from srm_common.kafka.source_offsets import STABLE_WITHIN_SECONDS
from srm_common.kafka.state_topics import StateTopics
from srm_common.replication.ownership import Ownership
from srm_common.wire.batch import TRANSACTIONAL, stamp
from srm_common.wire.mm2 import parse_source_offset_key
from srm_common.wire.murmur2 import partition_for
from srm_common.wire.plain_records import plain_records

Entry = tuple[bytes, bytes | None]
_BATCH_RECORDS = 2000


def rewrite_offsets(flow: FlowSettings, owner: Ownership, state: StateTopics) -> int:
    """Make the last record of each source offset's key a committed one, also for who does not ask for that.

    One transaction of the flow's first slot, whose identity ``owner`` holds: a run that takes the flow meanwhile makes
    it fail, so that a newer offset is never overwritten. Keys that were never committed get a tombstone.

    Returns:
        How many keys were written; 0 when no aborted record was the last one of its key.

    Raises:
        Fenced: another run took the flow.
        StateUnavailable: the target was not able to; nothing is lost, do it again.
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    entries = _doubtful(flow, state)
    if entries:
        write_entries(flow, owner, state, entries)
    return len(entries)


def write_entries(flow: FlowSettings, owner: Ownership, state: StateTopics, entries: list[Entry]) -> None:
    """Write keys and values to the flow's offsets topic in one transaction; raises as :func:`rewrite_offsets`."""
    with ClusterLink(flow.target, request_timeout_ms=flow.request_timeout_ms) as link:
        link.run(lambda: _write(flow, owner, state, link, entries))


def _doubtful(flow: FlowSettings, state: StateTopics) -> list[Entry]:
    """Keys of the flow whose last record is not committed, with the value that is (None: there is none)."""
    topic, partitions = state.offsets_topic, range(state.offsets_partitions)
    with StateReader(flow.target) as reader, StateReader(flow.target, committed=False) as everything:
        ends = reader.stable_ends(topic, partitions, STABLE_WITHIN_SECONDS)
        committed = last_of_each_key(reader.read(topic, ends=ends))
        seen = last_of_each_key(everything.read(topic, ends=everything.offsets(topic, partitions, LATEST)))
    found: list[Entry] = []
    for key, last in seen.items():
        parsed = parse_source_offset_key(key)
        if parsed is None or parsed[1] != flow.name.source:
            continue
        sure = committed.get(key)
        if sure is None or sure.offset != last.offset or sure.partition != last.partition:
            found.append((key, None if sure is None else sure.value))
    return found


async def _write(
    flow: FlowSettings, owner: Ownership, state: StateTopics, link: ClusterLink, entries: list[Entry]
) -> None:
    await link.open({state.offsets_topic})
    producer = Producer(
        link,
        owner.identities[0],
        transactions_v2=await link.finalized_feature("transaction.version") >= 2,
        transaction_timeout_ms=flow.transaction_timeout_ms,
        retry_seconds=flow.retry_timeout_seconds,
    )
    homes: dict[Partition, list[Entry]] = defaultdict(list)
    for entry in entries:
        homes[state.offsets_topic, partition_for(entry[0], state.offsets_partitions)].append(entry)
    try:
        refused = await producer.add(homes)
        if refused:
            raise RetriableFault(codes.name(min(refused.values())))
        for home, some in homes.items():
            for batch in _batches(some):
                await _produce(flow, link, producer, home, batch)
        await producer.commit()
    except (RetriableFault, UncertainCommit) as error:
        raise StateUnavailable(
            f"the source offsets of flow {flow.name} could not be written to {state.offsets_topic}: {error}; "
            f"nothing is lost, do it again"
        ) from error


async def _produce(
    flow: FlowSettings, link: ClusterLink, producer: Producer, home: Partition, entries: list[Entry]
) -> None:
    leader = link.leader(*home)
    if leader is None:
        raise RetriableFault(f"{home[0]}-{home[1]} has no leader")
    body, now_ms = plain_records(entries), int(time.time() * 1000)
    header = stamp(
        attributes=TRANSACTIONAL,
        last_offset_delta=len(entries) - 1,
        base_timestamp=now_ms,
        max_timestamp=now_ms,
        record_count=len(entries),
        body=body,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=producer.take(home, len(entries)),
    )
    request = RawProduce(
        producer.produce_version,
        producer.transactional_id,
        flow.request_timeout_ms,
        {home[0]: [(home[1], (header, body))]},
    )
    answer = await link.send(leader, request)
    for part in answer.partitions:
        if part.error_code:
            raise RetriableFault(f"{home[0]}-{home[1]}: {codes.name(part.error_code)}")


def _batches(entries: list[Entry]) -> Iterator[list[Entry]]:
    for start in range(0, len(entries), _BATCH_RECORDS):
        yield entries[start : start + _BATCH_RECORDS]
