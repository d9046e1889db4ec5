"""A flow whose groups' offsets are exported, explained and applied by the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from srm_common.cli.main import run
from srm_common.domain.flow import FlowSettings
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunState
from srm_common.kafka.groups.group_offsets import GroupReader
from srm_common.usecases.offsets.sync_checkpoints import sync_checkpoints
from srm_common.usecases.runs.replicate import replicate
from tests.contract.parts import Cluster
from tests.kafka.flows import flow_between, prepare, properties_of, write
from tests.kafka.group_commits import commit
from tests.kafka.markers import wait_for_markers
from tests.slot_worker import here


@dataclass
class Scenario:
    """A flow that has copied two of three partitions, with the groups ``one`` and ``other``.

    The commands are those of a person who looks at it while the source is down.
    """

    flow: FlowSettings
    topic: str
    config: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def remote(self) -> str:
        return f"{self.flow.name.source}.{self.topic}"

    @property
    def one(self) -> str:
        return f"{self.topic}-g"

    @property
    def other(self) -> str:
        return f"{self.topic}-h"

    def offsets(self, *words: str, code: int = 0, config: Path | None = None) -> tuple[str, str]:
        """``srm-control offsets`` with SRM's options: (standard output, standard error)."""
        self.capsys.readouterr()
        apply = words[:1] if words[:1] == ("apply",) else ()
        place = ["--config", str(config or self.config)]
        place += ["--source", self.flow.name.source, "--target", self.flow.name.target]
        found = run(["offsets", *apply, *place, *words[len(apply) :]])
        captured = self.capsys.readouterr()
        assert found == code, captured.out + captured.err
        return captured.out, captured.err

    def json(self, *words: str, code: int = 0, config: Path | None = None) -> Any:
        return json.loads(self.offsets(*words, "--output", "json", code=code, config=config)[0])

    def committed(self, kafka: Cluster, *groups: str) -> dict[tuple[str, int], int]:
        """What one group has committed."""
        offsets, faults = GroupReader(self.flow.target).offsets(groups)
        assert not faults
        return {place: at.offset for offset in offsets for place, at in offset.offsets.items()}


def copied_flow(
    source: Cluster,
    target: Cluster,
    name: str,
    configuration_file: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> Scenario:
    """The flow has copied and written checkpoints; the configuration says that its source is down."""
    flow = flow_between(source, target, name, topics=(name,), groups=(f"{name}.*",))
    # Nothing is ever copied to the third, which somebody else has written to.
    source.create_topic(name, partitions=3)
    write(source, name, [b"%d" % number for number in range(40)])
    write(source, name, [b"%d" % number for number in range(20)], partition=1)
    prepare(flow)
    record = replicate(flow, RunOptions("r"), here)
    assert record.state is RunState.DONE
    wait_for_markers(flow, record)
    write(target, f"{flow.name.source}.{name}", [b"by others"], partition=2)
    commit(source, f"{name}-g", TopicPartition(name, 0, 30), TopicPartition(name, 1, 20), TopicPartition(name, 2, 0))
    commit(source, f"{name}-h", TopicPartition(name, 0, 7))
    sync_checkpoints(flow)
    away = properties_of(flow) | {f"{flow.name.source}.bootstrap.servers": "127.0.0.1:1"}
    return Scenario(flow, name, configuration_file(away), capsys)
