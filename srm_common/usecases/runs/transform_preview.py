"""What the transforms of a flow make of the newest records of its topics, before it counts. Nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from srm_common.domain.flow import FlowSettings
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.selection import TopicDecision
from srm_common.domain.transforms.chain import needs_schemas
from srm_common.errors import ConfigError, TransformFailed
from srm_common.settings_files.user_classes import load_function
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.topics.plan_topics import decide_topics
from srm_common.wire.batch import SourceBatch

if TYPE_CHECKING:
    import pyarrow as pa

    from srm_common.schema_registry.record_schemas import RegistrySchemas

#: So many topics are looked at where none is named.
MOST_TOPICS = 10


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record as it is, or would be."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of a record: ``record`` is None where it is dropped or fails, ``reason`` says why it fails."""

    record: ShownRecord | None = None
    reason: str = ""

    def fate(self, before: ShownRecord) -> str:
        """``unchanged``, ``changed``, ``dropped`` or ``failed``."""
        if self.reason:
            return "failed"
        if self.record is None:
            return "dropped"
        return "unchanged" if self.record == before else "changed"


@dataclass(frozen=True, slots=True)
class Previewed:
    """One record of the source. ``other`` is what other transforms would make of it, where some were given."""

    topic: str
    partition: int
    offset: int
    before: ShownRecord
    after: Outcome
    other: Outcome | None = None


def preview_transforms(
    clusters: FlowClusters, topics: Sequence[str], sample: int, other: FlowSettings | None = None
) -> tuple[list[Previewed], list[str]]:
    """The newest ``sample`` records of each topic, by partition and offset, and the topics that were not looked at.

    Args:
        topics: of the source; the first :data:`MOST_TOPICS` that are copied where none is named.
        other: a flow between the same clusters, for its transforms.

    Raises:
        ConfigError: a topic is not copied, what the transforms need is not installed here, or a flow has SQL.
        CorruptBatch: a record cannot be read.
        UnreachableCluster, AccessDenied, ClusterError: as the clusters answer.
    """
    if clusters.flow.statements or (other is not None and other.statements):
        raise ConfigError("transforms.sql is evaluated by Spark in runs only, and cannot be tried here")
    decisions = {one.topic: one for one in decide_topics(clusters)}
    for topic in topics:
        found = decisions.get(topic)
        if found is None or not found.accepted:
            why = "there is no such topic" if found is None else found.reason
            raise ConfigError(f"{topic} is not copied by {clusters.flow.name}: {why}")
    policy = clusters.flow.policy
    copied = [one.topic for one in decisions.values() if one.accepted and not policy.is_heartbeats_topic(one.topic)]
    chosen = list(dict.fromkeys(topics)) or sorted(copied)[:MOST_TOPICS]
    out: list[Previewed] = []
    for topic in chosen:
        out += _of_topic(clusters, decisions[topic], sample, other)
    return out, [] if topics else sorted(copied)[MOST_TOPICS:]


def _of_topic(
    clusters: FlowClusters, decision: TopicDecision, sample: int, other: FlowSettings | None
) -> list[Previewed]:
    batches = _newest_batches(clusters, decision.topic, sample)
    newest = [
        (record.timestamp_ms, partition, offset)
        for partition, records in batches.items()
        for offset, record in _shown(records).items()
    ]
    schemas = _schemas(clusters, other)
    kept = {(partition, offset) for _, partition, offset in sorted(newest)[-sample:]}
    out = []
    for partition, records in sorted(batches.items()):
        offsets = records.column("offset").to_pylist()
        records = records.filter([(partition, offset) in kept for offset in offsets])
        if not records.num_rows:
            continue
        after = _outcomes(clusters.flow, decision, partition, records, schemas)
        others = {} if other is None else _outcomes(other, decision, partition, records, schemas)
        out += [
            Previewed(decision.topic, partition, offset, before, after[offset], others.get(offset))
            for offset, before in _shown(records).items()
        ]
    return out


def _newest_batches(clusters: FlowClusters, topic: str, sample: int) -> dict[int, pa.RecordBatch]:
    """The last records of each partition, ``sample`` of them or a few less where markers and gaps lie between."""
    try:
        import pyarrow as pa

        from srm_common.kafka.log.committed_log import read_committed
        from srm_common.wire.columns import decode
    except ImportError as error:
        raise ConfigError(f"this needs {error.name}: install srm-kafka[transforms] here") from error
    facts = clusters.source.admin.describe_topics([topic])
    partitions = range(facts[topic].partitions) if topic in facts else range(0)
    seconds = clusters.flow.request_seconds
    found: dict[int, list[pa.RecordBatch]] = {}
    with clusters.source.link("transform") as link:
        places = [TopicPartition(topic, partition) for partition in partitions]
        starts = {place[1]: start for place, start in link.start_offsets(places, timeout_seconds=seconds)[0].items()}
        ends = {place[1]: end for place, end in link.end_offsets(places, timeout_seconds=seconds)[0].items()}
        ends = {partition: end for partition, end in ends.items() if end > starts.get(partition, 0)}
        # Transactions take an offset for each marker.
        begin = {partition: max(starts.get(partition, 0), end - 2 * sample) for partition, end in ends.items()}

        def take(partition: int, batch: SourceBatch) -> None:
            records = decode([batch])
            offsets = records.column("offset").to_numpy()
            within = (offsets >= begin[partition]) & (offsets < ends[partition])
            found.setdefault(partition, []).append(records.filter(pa.array(within)))

        async def work() -> None:
            await link.open([topic], seconds)
            await read_committed(link, topic, ends, take, patience_seconds=seconds, starts=begin)

        if ends:
            link.run(work)
    return {
        partition: pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
        for partition, parts in found.items()
        if sum(part.num_rows for part in parts)
    }


def _schemas(clusters: FlowClusters, other: FlowSettings | None) -> RegistrySchemas | None:
    """Those of the source; nothing is registered."""
    chains = [clusters.flow.transforms, *([] if other is None else [other.transforms])]
    if not any(map(needs_schemas, chains)):
        return None
    try:
        from srm_common.schema_registry.record_schemas import RegistrySchemas
    except ImportError as error:
        raise ConfigError(f"this needs {error.name}: install srm-kafka[transforms] here") from error
    return RegistrySchemas(clusters.source.schema_registry, None)


def _outcomes(
    flow: FlowSettings,
    decision: TopicDecision,
    partition: int,
    records: pa.RecordBatch,
    schemas: RegistrySchemas | None,
) -> dict[int, Outcome]:
    """By offset."""
    from srm_common.records.provenance import ProvenanceHeaders
    from srm_common.records.python_function import PythonFunction
    from srm_common.records.transform import Transform

    own = flow.python_transform
    functions = []
    if own is not None:
        functions.append(PythonFunction(own.path, load_function(own.path), own.timeout_seconds, decision.topic))
    transform = Transform(flow.transforms, decision.remote_topic or decision.topic, functions, partition, schemas)
    offsets = records.column("offset").to_pylist()
    try:
        left, faults = transform.apply(records)
    except TransformFailed as error:
        return dict.fromkeys(offsets, Outcome(reason=str(error)))
    if flow.provenance:
        place = TopicPartition(decision.topic, partition)
        left = ProvenanceHeaders(flow.provenance, str(flow.name), flow.name.source, place).added(left)
    out = dict.fromkeys(offsets, Outcome())
    out |= {offset: Outcome(record) for offset, record in _shown(left).items()}
    out |= {fault.offset: Outcome(reason=f"transforms.{fault.step}: {fault.reason}") for fault in faults}
    return out


def _shown(records: pa.RecordBatch) -> dict[int, ShownRecord]:
    from srm_common.wire.columns import parsed_headers

    headers: list[Any] = parsed_headers(records).to_pylist() if records.num_rows else []
    columns = (records.column(name).to_pylist() for name in ("offset", "timestamp", "key", "value"))
    named = (tuple((one["key"].decode(errors="backslashreplace"), one["value"]) for one in found) for found in headers)
    return {
        offset: ShownRecord(timestamp, key, value, names)
        for offset, timestamp, key, value, names in zip(*columns, named, strict=True)
    }
