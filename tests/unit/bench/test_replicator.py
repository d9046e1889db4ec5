import os
import sys
from dataclasses import replace
from pathlib import Path

from bench.certificate import make_certificate
from bench.flow_run import spark_command, spark_environment
from bench.mirror_maker import mirror_maker_properties
from bench.replicator import replicator_command, replicator_properties
from bench.sides import Flow
from srm_common.domain.flow import FlowSettings
from srm_common.settings_files.configuration import load_configuration

EXACTLY_ONCE = Flow("east1", "bench-1k-lz4", "lz4", 1024, exactly_once=True)
AT_LEAST_ONCE = Flow("east1", "bench-1k-lz4", "lz4", 1024, exactly_once=False)


def loaded(folder: Path, flow: Flow) -> FlowSettings:
    file = folder / "srm.properties"
    properties = replicator_properties(flow, "a:1", "b:2")
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
    return load_configuration(file).flow("east1->backup")


def test_the_properties_load_as_one_flow_with_the_wanted_guarantee(tmp_path: Path) -> None:
    settings = loaded(tmp_path, EXACTLY_ONCE)
    assert settings.enabled
    assert settings.exactly_once
    assert settings.tasks_max == 2
    assert settings.topics == ("bench-1k-lz4",)
    assert not loaded(tmp_path, AT_LEAST_ONCE).exactly_once


def test_both_sides_have_the_certificate_of_a_workload_with_tls(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    flow = replace(EXACTLY_ONCE, security=certificate.client_properties)
    settings = loaded(tmp_path, flow)
    for cluster in (settings.source, settings.target):
        assert cluster.kafka_python["security_protocol"] == "SSL"
        assert cluster.confluent["ssl.ca.location"] == str(certificate.trusted)
    theirs = mirror_maker_properties(flow, "a:1", "b:2", 8083)
    for alias in ("east1", "backup"):
        assert {theirs[f"{alias}.{key}"] for key in flow.security} == set(certificate.client_properties.values())


def test_the_run_is_one_process_that_becomes_spark_submit(tmp_path: Path) -> None:
    assert replicator_command(EXACTLY_ONCE, tmp_path)[:3] == [sys.executable, "-m", "bench.flow_run"]
    command = spark_command(loaded(tmp_path, EXACTLY_ONCE), tmp_path / "srm.properties", "bench-east1")
    assert os.access(command[0], os.X_OK)
    assert command[command.index("--master") + 1] == "local[2]"
    job = next(part for part in command if part.endswith("replicate.py"))
    assert Path(job).is_file()
    assert command[command.index("--flow") + 1] == "east1->backup"


def test_spark_runs_in_this_interpreter_unless_told_otherwise() -> None:
    assert spark_environment({})["PYSPARK_PYTHON"] == sys.executable
    assert spark_environment({"PYSPARK_PYTHON": "/other"})["PYSPARK_PYTHON"] == "/other"
