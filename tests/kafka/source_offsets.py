"""A flow whose committed source offsets are listed and moved by the command, as a user types it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from srm_common.cli.main import run as srm_control
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord
from srm_common.usecases.runs.replicate import replicate
from tests.contract.parts import Cluster
from tests.kafka.checkpoint_rounds import values
from tests.kafka.flows import flow_between, prepare, properties_of, read, write
from tests.slot_worker import here


class Scenario:
    """A flow with one topic of two partitions, 20 records in each, and the command for it."""

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        topic: str,
        configuration_file: Callable[..., Path],
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.flow = flow_between(source, target, topic)
        self.topic, self.source, self.target, self.capsys = topic, source, target, capsys
        self.copy = f"{self.flow.name.source}.{topic}"
        self.file = configuration_file(properties_of(self.flow))
        source.create_topic(topic, 2)
        for partition in (0, 1):
            write(source, topic, values(0, 20), partition)

    def run(self, **changes: Any) -> RunRecord:
        prepare(self.flow)
        return replicate(replace(self.flow, **changes), RunOptions("r"), here)

    def control(self, *arguments: str) -> tuple[int, Any, str]:
        """Exit code, standard output as JSON where it is, standard error."""
        verb, *rest = arguments
        self.capsys.readouterr()
        line = ["source-offsets", verb, "--config", str(self.file), "--flow", str(self.flow.name), *rest, "-o", "json"]
        code = srm_control(line)
        told = self.capsys.readouterr()
        sys.stderr.write(told.err)  # for the report of a test that fails
        return code, json.loads(told.out) if told.out else None, told.err

    def offsets(self) -> dict[int, int | None]:
        code, answer, _ = self.control("list")
        assert code == 0
        return {one["partition"]: one["offset"] for one in answer["offsets"]}

    def copied(self, partition: int = 0) -> list[bytes | None]:
        return [seen.value for seen in read(self.target, self.copy, partition)]
