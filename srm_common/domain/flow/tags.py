"""The tags of flows' DAGs, by which a flow is found again in a scheduler."""

from __future__ import annotations

from collections.abc import Collection

from srm_common.domain.flow import FlowName

#: Of every flow's DAG.
FLOW_TAG = "srm"
#: Of the DAG of a flow whose keys are wrong; its description is the sentence that says so.
MISCONFIGURED_TAG = "srm:misconfigured"
_SOURCE, _TARGET = "source:", "target:"


def tags_of(flow: FlowName) -> tuple[str, ...]:
    return FLOW_TAG, f"{_SOURCE}{flow.source}", f"{_TARGET}{flow.target}"


def flow_of(tags: Collection[str]) -> FlowName | None:
    """The flow of a DAG with these tags, None for a DAG of something else."""
    source = next((tag.removeprefix(_SOURCE) for tag in tags if tag.startswith(_SOURCE)), None)
    target = next((tag.removeprefix(_TARGET) for tag in tags if tag.startswith(_TARGET)), None)
    return FlowName(source, target) if FLOW_TAG in tags and source and target else None
