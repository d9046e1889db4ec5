from __future__ import annotations

import pytest

from srm_common.domain.flow import FlowName
from srm_common.domain.flow.tags import FLOW_TAG, MISCONFIGURED_TAG, flow_of, tags_of


@pytest.mark.parametrize("flow", [FlowName("a", "b"), FlowName("source:x", "eu:1")])
def test_tags_lead_back_to_their_flow(flow: FlowName) -> None:
    assert flow_of({*tags_of(flow), MISCONFIGURED_TAG, "somebody's own"}) == flow


@pytest.mark.parametrize("tags", [[], [FLOW_TAG], [FLOW_TAG, "source:a"], ["source:a", "target:b"]])
def test_dags_of_something_else_have_no_flow(tags: list[str]) -> None:
    assert flow_of(tags) is None
