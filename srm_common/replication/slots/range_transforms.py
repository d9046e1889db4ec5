"""What a slot does to the records of its ranges, where the flow changes records."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import TYPE_CHECKING, Protocol

from srm_common.domain.runs.copying import CopyJob, CopyRange
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.transforms.chain import schema_formats
from srm_common.domain.transforms.formats import FormatKind
from srm_common.domain.transforms.statements import PythonTransform, StatementColumns, statement_for
from srm_common.errors import ConfigError, installing
from srm_common.replication.slots.ranges import Transformed
from srm_common.settings_files.user_classes import load_function, loaded_digest

if TYPE_CHECKING:
    from srm_common.records.sql_statement import Evaluate
    from srm_common.records.transform import BatchStep
    from srm_common.replication.slots.slot_registries import SlotRegistries


class SqlAccess(Protocol):
    """What evaluates statements: a slot's way to Spark SQL, or the slot itself.

    ``columns``: what a statement reads and changes, by its number among the flow's.
    """

    @property
    def evaluate(self) -> Evaluate: ...

    def columns(self, statement: int) -> StatementColumns: ...


def range_transforms(
    job: CopyJob, slot: int, sql: SqlAccess | None = None, registries: SlotRegistries | None = None
) -> Callable[[CopyRange], Transformed | None]:
    """What becomes of the batches of each range; None where they go unopened.

    Args:
        registries: where the job needs some
            (:func:`~srm_common.replication.slots.slot_registries.slot_registries`).

    Raises:
        ConfigError: what they need is not installed here, or the function is another one than where the run is driven.
    """
    if not job.changes_records:
        return lambda spec: None
    if job.needs_spark_sql and sql is None:
        raise ConfigError(f"flow {job.flow} has transforms.sql, which only Spark can evaluate")
    # Arrow and numba are needed for these alone.
    try:
        from srm_common.records.failed import FailedRecords
        from srm_common.records.plain_statement import PlainStatements
        from srm_common.records.provenance import ProvenanceHeaders
        from srm_common.records.python_function import PythonFunction
        from srm_common.records.schema_id_step import SchemaIdStep
        from srm_common.records.sql_statement import SqlStatement
        from srm_common.records.transform import Transform
        from srm_common.records.transformed import transformed

        _import_formats(job)
    except ImportError as error:
        raise ConfigError(
            f"flow {job.flow} has transforms, provenance headers or schemas.ids = map, which need {error.name} where "
            f"slots run: {installing('transforms')} there"
        ) from error

    access = sql or PlainStatements(job.statements)
    own = job.python_transform
    loaded = _function(job, own) if own is not None else None

    @cache
    def function_of(topic: str) -> PythonFunction | None:
        return None if own is None or loaded is None else PythonFunction(own.path, loaded, own.timeout_seconds, topic)

    @cache
    def statement_of(topic: str) -> int | None:
        return statement_for(topic, job.statements)

    def after_chain(upstream: TopicPartition) -> Iterator[BatchStep]:
        number, function = statement_of(upstream.topic), function_of(upstream.topic)
        if number is not None:
            yield SqlStatement(
                job.statements[number], number, access.columns(number), upstream, access.evaluate, registries
            )
        if function is not None:
            yield function

    def before_chain(upstream: TopicPartition) -> Iterator[BatchStep]:
        topic, mapping = upstream.topic, job.id_mapping
        if registries is not None and mapping is not None and mapping.sides(topic):
            yield SchemaIdStep(topic, mapping.sides(topic), registries, mapping.unnamed(topic))

    def of(spec: CopyRange) -> Transformed | None:
        if spec.heartbeats:
            return None
        upstream = TopicPartition(spec.upstream_topic, spec.partition)
        then = tuple(after_chain(upstream))
        first = tuple(before_chain(upstream))
        transform = Transform(
            job.transforms, spec.downstream_topic, then, spec.partition, registries, first, spec.upstream_topic
        )
        if not (transform.changes or job.provenance):
            return None
        failed = FailedRecords(job.error_handling, job.flow, slot, upstream, transform)
        headers = ProvenanceHeaders(job.provenance, job.flow, job.source_alias, upstream) if job.provenance else None
        return partial(transformed, transform=transform, failed=failed, provenance=headers)

    return of


def _function(job: CopyJob, own: PythonTransform) -> Callable[..., object]:
    """The user's function: what it lets through or masks must not depend on which machine a slot runs on."""
    try:
        loaded = load_function(own.path)
    except ConfigError as error:
        raise ConfigError(f"flow {job.flow} has transforms.python, and where slots run {error.reason}") from error
    here = loaded_digest(own.path)
    if own.digest is not None and here != own.digest:
        raise ConfigError(
            f"flow {job.flow} has transforms.python, and where slots run, on {platform.node()}, the module of "
            f"'{own.path}' is another one (digest {here or 'unknown'}) than where the run is driven ({own.digest}): "
            "install the same one wherever slots run, or ship it to Spark's workers, see docs/transforms.md"
        )
    return loaded


def _import_formats(job: CopyJob) -> None:
    """Raises ImportError where a package is missing, before anything is copied."""
    kinds = [*schema_formats(job.transforms), *([FormatKind.AVRO] * job.reads_avro)]
    if kinds:
        from srm_common.records.connect.registry_converter import values_of

        for kind in kinds:
            values_of(kind)
