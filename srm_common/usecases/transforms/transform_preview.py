"""Applies the transforms of a flow to the newest records of its topics, as a preview. Nothing is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.selection import TopicDecision
from srm_common.domain.transforms.chain import schema_formats
from srm_common.domain.transforms.formats import FormatKind
from srm_common.domain.transforms.statements import Statement, statement_for
from srm_common.errors import ConfigError, TransformFailed, installing
from srm_common.settings_files.user_classes import load_function
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.topics.plan_topics import decide_topics
from srm_common.usecases.transforms.newest_records import Allowance, NewestRecords, ReadLimits

if TYPE_CHECKING:
    import pyarrow as pa

    from srm_common.records.transform import BatchStep
    from srm_common.replication.slots.range_transforms import SqlAccess
    from srm_common.usecases.transforms.trial_schemas import TrialSchemas

#: How many topics are previewed if none is named.
MOST_TOPICS = 10
LIMITS = ReadLimits()
#: Records that are transformed at a time; in between the limits are checked.
_PIECE_ROWS = 200
#: A registry that is silent must not take all the time there is.
_LONGEST_REQUEST_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record as it is, or would be."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of a record: ``record`` is None where it is dropped or fails.

    Args:
        step: the key that it fails at, such as ``transforms.mask``.
        reason: why it fails; may quote the record.
    """

    record: ShownRecord | None = None
    reason: str = ""
    step: str = ""

    def fate(self, before: ShownRecord) -> str:
        """One of :data:`FATES`."""
        if self.reason:
            return "failed"
        if self.record is None:
            return "dropped"
        return "unchanged" if self.record == before else "changed"


@dataclass(frozen=True, slots=True)
class Previewed:
    """One record of the source. ``other`` is its result with the other transforms, if any were given."""

    topic: str
    partition: int
    offset: int
    before: ShownRecord
    after: Outcome
    other: Outcome | None = None

    @property
    def difference(self) -> str:
        """What the other transforms would alter, one of :data:`DIFFERENCES`; empty for nothing."""
        if self.other is None or self.other == self.after:
            return ""
        was, becomes = self.after.fate(self.before), self.other.fate(self.before)
        if was == becomes == "failed":
            return ""
        if becomes in _ENDS:
            return f"newly {becomes}"
        return f"no longer {was}" if was in _ENDS else "written differently"


FATES = ("unchanged", "changed", "dropped", "failed")
_ENDS = ("dropped", "failed")
DIFFERENCES = (*(f"newly {end}" for end in _ENDS), *(f"no longer {end}" for end in _ENDS), "written differently")
"""How a record may fare otherwise by other transforms. One that fails for another reason does not."""


@dataclass(frozen=True)
class Preview:
    """Records by topic, partition and offset.

    Args:
        wanted: how many records were to be compared at most; there may be fewer, as markers have offsets, too.
        ended: which limit was reached before all were compared; empty for none.
        topics_left_out: that are copied, too, and were not looked at, since no topic was named.
        schemas: by which keys and values can be read, where the transforms look into some that need a registry.
    """

    records: list[Previewed] = field(default_factory=list)
    wanted: int = 0
    ended: str = ""
    topics_left_out: list[str] = field(default_factory=list)
    schemas: TrialSchemas | None = None

    @property
    def ended_early(self) -> str:
        """A sentence if a limit was reached; empty otherwise."""
        return f"compared {len(self.records):,} of the last {self.wanted:,}: {self.ended}" if self.ended else ""


def preview_transforms(
    clusters: FlowClusters,
    topics: Sequence[str],
    sample: int,
    other: FlowSettings | None = None,
    *,
    sql: Callable[[tuple[Statement, ...]], SqlAccess] | None = None,
    limits: ReadLimits = LIMITS,
    clock: Callable[[], float] = time.monotonic,
) -> Preview:
    """The newest ``sample`` records of each topic, and their results.

    Args:
        topics: of the source; the first :data:`MOST_TOPICS` that are copied where none is named.
        other: a flow between the same clusters, for its transforms.
        sql: the way of a flow's statements to Spark; without one a flow with statements that need it is refused.
        limits: where one is reached, what was compared until then is the answer. A request to the source or a registry
            may take no longer than was left when it began, a function of the user's as long as the flow says.
        clock: seconds that only grow.

    Raises:
        ConfigError: a topic is not copied, what the transforms need is not installed here, or a statement is refused.
        CorruptBatch: a record cannot be read.
        UnreachableCluster, AccessDenied, ClusterError: as the clusters answer.
    """
    compared = [_Compared(flow, sql) for flow in (clusters.flow, other) if flow is not None]
    allowance = Allowance(limits, clock)
    decisions = {decide_topic.topic: decide_topic for decide_topic in decide_topics(clusters)}
    for topic in topics:
        decision = decisions.get(topic)
        if decision is None or not decision.accepted:
            why = "there is no such topic" if decision is None else decision.reason
            raise ConfigError(f"{topic} is not copied by {clusters.flow.name}: {why}")
    copied = [
        topic_decision.topic
        for topic_decision in decisions.values()
        if topic_decision.accepted and not names.has_heartbeats(clusters.flow, topic_decision.topic)
    ]
    chosen = list(dict.fromkeys(topics)) or sorted(copied)[:MOST_TOPICS]
    schemas = _schemas(clusters, compared, allowance)
    out: list[Previewed] = []
    with NewestRecords(clusters, allowance) as newest:
        bounds = newest.bounds(chosen)
        for topic in chosen:
            if bounds[topic] and not allowance.over():
                records = newest.read(topic, bounds[topic], sample)
                out += _of_topic(clusters, decisions[topic], records, sample, compared, schemas, allowance)
    wanted = sum(min(sample, sum(map(len, spans.values()))) for spans in bounds.values())
    left_out = [] if topics else sorted(copied)[MOST_TOPICS:]
    return Preview(out, wanted, allowance.ended, left_out, schemas)


def _of_topic(
    clusters: FlowClusters,
    decision: TopicDecision,
    found: dict[int, pa.RecordBatch],
    sample: int,
    compared: Sequence[_Compared],
    schemas: TrialSchemas | None,
    allowance: Allowance,
) -> list[Previewed]:
    newest = [
        (timestamp, partition, offset)
        for partition, records in found.items()
        for timestamp, offset in zip(
            *(records.column(name).to_pylist() for name in ("timestamp", "offset")), strict=True
        )
    ]
    kept = {(partition, offset) for _, partition, offset in sorted(newest)[-sample:]}
    out: list[Previewed] = []
    for partition, records in sorted(found.items()):
        offsets = records.column("offset").to_pylist()
        records = records.filter([(partition, offset) in kept for offset in offsets])
        for start in range(0, records.num_rows, _PIECE_ROWS):
            # What was read in time is compared at least in part.
            if out and allowance.over():
                return out
            piece = records.slice(start, _PIECE_ROWS)
            after, *others = (one.outcomes(decision, partition, piece, schemas) for one in compared)
            out += [
                Previewed(
                    decision.topic, partition, offset, before, after[offset], *(other[offset] for other in others)
                )
                for offset, before in _shown(piece).items()
            ]
    return out


def _schemas(clusters: FlowClusters, compared: Sequence[_Compared], allowance: Allowance) -> TrialSchemas | None:
    """Those of the source; nothing is registered."""
    chains = [one.flow.transforms for one in compared]
    reads_avro = any(statement.reads_avro for one in compared for statement in one.flow.statements)
    formats = [kind for chain in chains for kind in schema_formats(chain)]
    formats += [FormatKind.AVRO] * reads_avro
    if not formats:
        return None
    try:
        from srm_common.records.connect.registry_converter import values_of
        from srm_common.schema_registry.record_schemas import RegistrySchemas
        from srm_common.usecases.transforms.trial_schemas import TrialSchemas

        for kind in formats:
            values_of(kind)
    except ImportError as error:
        raise ConfigError(f"this needs {error.name}: {installing('transforms')} here") from error
    seconds = min(_LONGEST_REQUEST_SECONDS, clusters.flow.request_seconds, allowance.seconds)
    source = clusters.source.schema_registry_within(seconds)
    return TrialSchemas(RegistrySchemas(source, None), chains, reads_avro=reads_avro)


class _Compared:
    """What a flow does to records."""

    def __init__(self, flow: FlowSettings, sql: Callable[[tuple[Statement, ...]], SqlAccess] | None) -> None:
        if flow.needs_spark_sql and sql is None:
            raise ConfigError("transforms.sql is evaluated by Spark, which is not at hand here")
        self.flow = flow
        self._sql = sql(flow.statements) if flow.needs_spark_sql and sql is not None else None

    def outcomes(
        self, decision: TopicDecision, partition: int, records: pa.RecordBatch, schemas: TrialSchemas | None
    ) -> dict[int, Outcome]:
        """By offset."""
        from srm_common.records.provenance import ProvenanceHeaders
        from srm_common.records.transform import Transform

        flow, upstream = self.flow, TopicPartition(decision.topic, partition)
        if names.has_heartbeats(flow, upstream.topic):
            return {offset: Outcome(record) for offset, record in _shown(records).items()}
        copy = decision.remote_topic or decision.topic
        then = tuple(self._after_chain(upstream, schemas))
        transform = Transform(flow.transforms, copy, then, partition, schemas, upstream=decision.topic)
        offsets = records.column("offset").to_pylist()
        try:
            left, faults = transform.apply(records)
        except TransformFailed as error:
            return dict.fromkeys(offsets, Outcome(reason=str(error)))
        if flow.provenance:
            left = ProvenanceHeaders(flow.provenance, str(flow.name), flow.name.source, upstream).added(left)
        out = dict.fromkeys(offsets, Outcome())
        out |= {offset: Outcome(record) for offset, record in _shown(left).items()}
        for fault in faults:
            step = f"transforms.{fault.step}"
            out[fault.offset] = Outcome(reason=f"{step}: {fault.reason}", step=step)
        return out

    def _after_chain(self, upstream: TopicPartition, schemas: TrialSchemas | None) -> Iterator[BatchStep]:
        from srm_common.records.plain_statement import PlainStatements
        from srm_common.records.python_function import PythonFunction
        from srm_common.records.sql_statement import SqlStatement

        statements, own = self.flow.statements, self.flow.python_transform
        number = statement_for(upstream.topic, statements)
        if number is not None:
            access = self._sql or PlainStatements(statements)
            yield SqlStatement(statements[number], number, access.columns(number), upstream, access.evaluate, schemas)
        if own is not None:
            yield PythonFunction(own.path, load_function(own.path), own.timeout_seconds, upstream.topic)


def _shown(records: pa.RecordBatch) -> dict[int, ShownRecord]:
    from srm_common.wire.reencoding.columns import parsed_headers

    headers: list[Any] = parsed_headers(records).to_pylist() if records.num_rows else []
    columns = (records.column(name).to_pylist() for name in ("offset", "timestamp", "key", "value"))
    named = (tuple((one["key"].decode(errors="backslashreplace"), one["value"]) for one in found) for found in headers)
    return {
        offset: ShownRecord(timestamp, key, value, names)
        for offset, timestamp, key, value, names in zip(*columns, named, strict=True)
    }
