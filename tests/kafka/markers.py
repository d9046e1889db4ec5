"""Markers of transactions may come later than the answers to their commits: until then nobody reads what is behind."""

from __future__ import annotations

from srm_common.domain import names
from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.run_record import RunRecord
from srm_common.kafka.compacted import StateReader

_SECONDS = 120.0


def wait_for_markers(flow: FlowSettings, record: RunRecord) -> None:
    """Until everything that a run has committed on the target can be read."""
    copies = {one.downstream_topic for one in record.partitions}
    source = flow.name.source
    with StateReader(flow.target) as reader:
        for topic in sorted({names.segments_topic(source), names.offsets_topic(source)} | copies):
            reader.stable_ends(topic, range(reader.partitions(topic)), _SECONDS)
