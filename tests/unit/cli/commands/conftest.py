from __future__ import annotations

from pathlib import Path

import pytest

from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.run_options import RunOptions
from srm_common.testing import FakeCluster
from srm_common.usecases.runs.replicate import replicate
from tests.kafka.flows import flow_between, prepare, properties_of, write
from tests.slot_worker import here


@pytest.fixture
def copied_flow(source_kafka: FakeCluster, target_kafka: FakeCluster, name: str) -> FlowSettings:
    """It has copied ten records of the topic ``name``."""
    flow = flow_between(source_kafka, target_kafka, name)
    source_kafka.create_topic(name)
    write(source_kafka, name, [b"x"] * 10)
    prepare(flow)
    replicate(flow, RunOptions("r"), here)
    return flow


@pytest.fixture
def of_flow(copied_flow: FlowSettings, tmp_path: Path) -> list[str]:
    """The options that name the flow."""
    file = tmp_path / "srm.properties"
    file.write_text("\n".join(f"{key} = {value}" for key, value in properties_of(copied_flow).items()))
    return ["--config", str(file), "--flow", str(copied_flow.name)]
