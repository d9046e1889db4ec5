"""What a slot does to the records of its ranges, where the flow changes records."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from srm_common.domain.runs.copying import CopyJob, CopyRange
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import ConfigError
from srm_common.replication.slots.ranges import Transformed
from srm_common.settings_files.user_classes import load_function


def range_transforms(job: CopyJob, slot: int) -> Callable[[CopyRange], Transformed | None]:
    """What becomes of the batches of each range; None where they go unopened.

    Raises:
        ConfigError: what they need is not installed here.
    """
    if not (job.transforms or job.python_transform or job.provenance):
        return lambda spec: None
    # Arrow and numba are needed for these alone.
    try:
        from srm_common.records.failed import FailedRecords
        from srm_common.records.provenance import ProvenanceHeaders
        from srm_common.records.python_function import PythonFunction
        from srm_common.records.transform import Transform
        from srm_common.records.transformed import transformed
    except ImportError as error:
        raise ConfigError(
            f"flow {job.flow} has transforms or provenance headers, which need {error.name} where slots run: "
            f"install srm-kafka[transforms] there"
        ) from error

    own = job.python_transform
    try:
        loaded = load_function(own.path) if own is not None else None
    except ConfigError as error:
        raise ConfigError(f"flow {job.flow} has transforms.python, and where slots run {error.reason}") from error

    @cache
    def function_of(topic: str) -> PythonFunction | None:
        return None if own is None or loaded is None else PythonFunction(own.path, loaded, own.timeout_seconds, topic)

    def of(spec: CopyRange) -> Transformed | None:
        function = function_of(spec.upstream_topic)
        transform = Transform(job.transforms, spec.downstream_topic, [function] if function else (), spec.partition)
        if not (transform.changes or job.provenance):
            return None
        upstream = TopicPartition(spec.upstream_topic, spec.partition)
        failed = FailedRecords(job.error_handling, job.flow, slot, upstream, transform)
        headers = ProvenanceHeaders(job.provenance, job.flow, job.source_alias, upstream) if job.provenance else None
        return partial(transformed, transform=transform, failed=failed, provenance=headers)

    return of
