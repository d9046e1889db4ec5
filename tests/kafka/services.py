"""Services as real processes: one ``srm-control serve`` beside each cluster, with a file, a history and logins."""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.names import SERVICES_TOPIC
from srm_common.domain.runs.run_options import RunOptions
from srm_common.errors import SrmError
from srm_common.kafka.state.service_log import read_services
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.settings_files.configuration import Configuration, load_configuration
from srm_common.testing.ports import ReservedPort
from srm_common.usecases.monitoring.report_run import report_by_hand
from srm_common.usecases.runs.replicate import replicate
from srm_common.wire.state.plain_records import NewRecord
from tests.contract.parts import Cluster
from tests.kafka.authority import Authority
from tests.kafka.flows import prepare
from tests.slot_worker import here

PASSWORD = "sesame-{}"


class Service:
    """The service of the cluster ``alias``, named like it, which serves the flow from ``source`` to that cluster.

    ``host`` is what it calls itself; all of them listen on 127.0.0.1, with TLS where ``authority`` vouches for that.
    """

    def __init__(
        self,
        folder: Path,
        alias: str,
        source: str,
        clusters: Mapping[str, Cluster],
        topics: str,
        host: str,
        authority: Authority | None = None,
    ) -> None:
        self.alias = alias
        self.port = ReservedPort()
        self.url = f"{'https' if authority else 'http'}://{host}:{self.port.number}"
        self._certificate = None if authority is None else authority.vouch_for(host)
        self._trust = None if authority is None else ssl.create_default_context(cafile=authority.pem)
        self.flow_name, self.path = f"{source}->{alias}", f"/flows/{source}/{alias}"
        self._folder = folder / alias
        self._folder.mkdir()
        self._file = self._folder / "srm.properties"
        self._properties: dict[str, object] = {
            "clusters": ", ".join(clusters),
            **{f"{name}.bootstrap.servers": kafka.bootstrap_servers for name, kafka in clusters.items()},
            "streams.replication.manager.driver.target.cluster": alias,
            f"{self.flow_name}.enabled": "true",
            f"{self.flow_name}.topics": topics,
            f"{self.flow_name}.emit.heartbeats.enabled": "false",
            f"{self.flow_name}.heartbeats.replication.enabled": "false",
            **{
                f"{self.flow_name}.{kind}replication.factor": 1
                for kind in (
                    "", "offset.storage.", "status.storage.", "config.storage.", "checkpoints.topic.",
                    "heartbeats.topic.", "offset-syncs.topic.",
                )
            },
            "metrics.database.url": f"sqlite:///{self._folder}/metrics.db",
            "service.name": alias,
            "service.advertised.url": self.url,
            "service.advertise.interval.seconds": 1,
            "service.peers.timeout.seconds": 10,
        }  # fmt: skip
        self.configure({})
        (self._folder / "logins").write_text(f"reader:viewer:{PASSWORD.format(alias)}\n")
        self._process: subprocess.Popen[str] | None = None
        self._runs = 0

    def configure(self, properties: Mapping[str, object]) -> None:
        """Write the file anew, with these besides what it had."""
        self._properties |= properties
        self._file.write_text("".join(f"{key} = {value}\n" for key, value in self._properties.items()))

    @property
    def file(self) -> Path:
        return self._file

    @property
    def configuration(self) -> Configuration:
        return load_configuration(self._file)

    @property
    def flow(self) -> FlowSettings:
        return self.configuration.flow(self.flow_name)

    def copy(self) -> None:
        """One run of the flow, without Spark and Airflow, and its report."""
        self._runs += 1
        run_id = f"run {self._runs}"
        prepare(self.flow)
        replicate(self.flow, RunOptions(run_id), here)
        self.report(run_id)

    def report(self, run_id: str) -> None:
        assert report_by_hand(self.flow, run_id, self.configuration) == []

    def start(self) -> None:
        """Begin to serve; returns at once."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SRM_", "AIRFLOW"))}
        command = [sys.executable, "-m", "srm_common.cli.main", "serve", "--config", str(self._file)]
        command += ["--port", str(self.port.number), "--password-file", str(self._folder / "logins")]
        if self._certificate is not None:
            command += ["--tls-cert", str(self._certificate)]
        with (self._folder / "log").open("a") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, text=True)

    def advertised(self) -> bool:
        """Whether its cluster knows of it."""
        try:
            advertisements, _ = read_services(self.flow.target, timeout_seconds=30)
        except SrmError:
            return False
        return any(advertisement.url == self.url for advertisement in advertisements)

    def get(self, path: str) -> dict[str, Any]:
        """What it answers to one of its readers; raises OSError where it does not, or refuses."""
        loads: dict[str, Any] = json.loads(self.read(f"/api/v2{path}"))
        return loads

    def read(self, path: str) -> bytes:
        """What it answers under any path."""
        request = urllib.request.Request(f"{self.url}{path}")
        login = base64.b64encode(f"reader:{PASSWORD.format(self.alias)}".encode()).decode()
        request.add_header("Authorization", f"Basic {login}")
        with urllib.request.urlopen(request, timeout=120, context=self._trust) as answer:
            body: bytes = answer.read()
            return body

    def refusal(self, path: str) -> tuple[int, list[dict[str, Any]]]:
        """Status and errors of what it answers to one of its readers."""
        with pytest.raises(urllib.error.HTTPError) as caught:
            self.get(path)
        errors: list[dict[str, Any]] = json.load(caught.value)["errors"]
        return caught.value.code, errors

    def flows(self) -> dict[str, dict[str, Any]]:
        """By name, none while it does not respond."""
        try:
            return {flow["flow"]: flow for flow in self.get("/flows")["flows"]}
        except OSError:
            return {}

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Returns when it has ended."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(300)
            self._process = None

    def close(self) -> None:
        """End it, and whatever its cluster still knows of it."""
        self.end(signal.SIGKILL)
        if self.advertised():
            gone = NewRecord(SERVICES_TOPIC, 0, self.url.encode(), None)
            StateWriter(self.flow.target).write("forget a service", [gone])
        self.port.release()

    def log(self) -> str:
        return (self._folder / "log").read_text()
