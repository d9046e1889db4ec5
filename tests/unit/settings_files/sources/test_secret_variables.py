from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from srm_common.domain.flow import FlowName
from srm_common.errors import ConfigError
from srm_common.replication.driver.run_folder import run_folder
from srm_common.settings_files.configuration import load_configuration
from srm_common.settings_files.sources import secret_variables
from srm_common.settings_files.sources.secret_variables import (
    FILE,
    WITHHELD,
    answering,
    hand_over,
    none_inherited,
    variable,
    variable_again,
    withheld,
)
from srm_common.testing.airflow_client import wait_until

BASE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"


@pytest.fixture(autouse=True)
def nothing_referred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_variables, "_referred", set())
    monkeypatch.setattr(secret_variables, "_for_others", set())


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """It refers to a password and to what every process needs, also in keys that no flow reads."""
    variables = {"EAST_PASSWORD": "hush", "METRICS": "hush", "JAVA_TRUST_PASSWORD": "hush", "HOME": "/home/srm"}
    for name, value in {**variables, "OTHER": "hush"}.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "srm.properties"
    file.write_text(
        f"{BASE}config.providers = vault\nconfig.providers.vault.class = org.apache.kafka.EnvVarConfigProvider\n"
        "A.sasl.password = ${vault:EAST_PASSWORD}\nmetrics.prometheus.password = ${env:METRICS}\n"
        "A.ssl.truststore.location = ${env:HOME}/ca.pem\nB.ssl.truststore.password = x${env:JAVA_TRUST_PASSWORD}\n"
        "A.client.id = ${env:NOT_THERE}-$OTHER-${nothing:OTHER}\n"
    )
    return file


def test_what_a_file_refers_to_is_handed_over_and_withheld_but_for_what_every_process_needs(
    configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {"EAST_PASSWORD": "hush", "METRICS": "hush", "JAVA_TRUST_PASSWORD": "hush"}
    assert load_configuration(configuration).secret_variables(FlowName("A", "B")) == expected
    for name in ("AIRFLOW_CONN_X", "AIRFLOW_VAR_X", "AIRFLOW__CORE__FERNET_KEY", "SRM_AIRFLOW_TOKEN", "SRM_DATABASE"):
        monkeypatch.setenv(name, "hush")
        expected[name] = "hush"
    monkeypatch.setenv("AIRFLOW_HOME", "/airflow")
    assert set(withheld()) == set(expected)


def test_children_do_without_what_is_withheld(configuration: Path) -> None:
    load_configuration(configuration)
    show = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
    before = dict(os.environ)
    with none_inherited():
        child = json.loads(subprocess.run(show, capture_output=True, check=True, timeout=120).stdout)
    assert dict(os.environ) == before
    assert before.keys() - child.keys() == {"EAST_PASSWORD", "METRICS", "JAVA_TRUST_PASSWORD"}
    assert child["HOME"] == "/home/srm"


def test_only_the_file_has_what_is_handed_over_and_only_its_owner_may_read_it(
    configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_configuration(configuration)
    with run_folder() as folder:
        file = folder / "secrets.json"
        environment = hand_over(file, {"EAST_PASSWORD": "newer", "AIRFLOW_CONN_EAST": "hush"})
        assert environment == {
            FILE: str(file),
            WITHHELD: "AIRFLOW_CONN_EAST EAST_PASSWORD JAVA_TRUST_PASSWORD METRICS",
        }
        assert [stat.S_IMODE(one.stat().st_mode) for one in (folder, file)] == [0o700, 0o600]
        with pytest.raises(FileExistsError):
            hand_over(file, {})
        monkeypatch.setenv(FILE, str(file))
        assert variable("EAST_PASSWORD") == "hush", "what is for another process is not read by this one"
        monkeypatch.setattr(secret_variables, "_for_others", set())
        # Before the environment's own, which a driver on the same machine may have, too.
        assert [variable(name) for name in ("EAST_PASSWORD", "OTHER", "NOT_THERE")] == ["newer", "hush", None]
        assert variable("AIRFLOW_CONN_EAST") == "hush"
        assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("content", "reason"), [(None, "No such file or directory"), ("{hush", "it is not JSON")])
def test_a_file_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, reason: str
) -> None:
    file = tmp_path / "secrets.json"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv(FILE, str(file))
    with pytest.raises(ConfigError) as told:
        variable("EAST_PASSWORD")
    assert str(told.value) == (
        f"{file}: the variable SRM_SECRETS_FILE names a file that cannot be used ({reason}); the task that starts "
        "Spark makes it for one driver, so unset the variable elsewhere"
    )
    assert told.value.__cause__ is None


def test_the_process_that_handed_a_file_over_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"EAST_PASSWORD": "first"}
    with run_folder() as folder:
        monkeypatch.setenv(FILE, hand_over(folder / "secrets.json", values)[FILE])
        with answering(folder, lambda: values):
            values["EAST_PASSWORD"] = "second"
            assert variable_again("EAST_PASSWORD") == "second"
            assert variable_again("OTHER") is None
        assert [file.name for file in folder.iterdir()] == ["secrets.json"], "answers are gone once they are read"


def test_an_answer_is_for_its_owner_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []

    def read(file: Path) -> dict[str, str]:
        modes.append(stat.S_IMODE(file.stat().st_mode))
        return {}

    monkeypatch.setattr(secret_variables, "_read_once", read)
    with run_folder() as folder, answering(folder, lambda: {"EAST_PASSWORD": "second"}):
        monkeypatch.setenv(FILE, str(folder / "secrets.json"))
        variable_again("EAST_PASSWORD")
    assert modes == [0o600]


def test_without_an_answer_there_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FILE, raising=False)
    with pytest.raises(ConfigError, match="no task has started this process"):
        variable_again("EAST_PASSWORD")
    monkeypatch.setenv(FILE, str(tmp_path / "gone" / "secrets.json"))
    with pytest.raises(ConfigError, match="the task that started Spark cannot be asked: No such file or directory"):
        variable_again("EAST_PASSWORD")
    monkeypatch.setenv(FILE, str(tmp_path / "secrets.json"))

    def unknown() -> dict[str, str]:
        raise ConfigError("clusters is missing", file="srm.properties")

    with answering(tmp_path, unknown), pytest.raises(ConfigError, match=r"srm.properties: clusters is missing"):
        variable_again("EAST_PASSWORD")
    monkeypatch.setattr(secret_variables, "_PATIENCE_SECONDS", 0.2)
    with pytest.raises(ConfigError, match=r"the task that started Spark did not look it up within 0.2 s"):
        variable_again("EAST_PASSWORD")
    assert list(tmp_path.iterdir()) == []


def test_one_look_up_answers_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_variables, "_ASKED_SECONDS", 0.3)
    looked_up = []

    def variables() -> dict[str, str]:
        looked_up.append(1)
        return {"EAST_PASSWORD": "second"}

    with run_folder() as folder, ThreadPoolExecutor(8) as pool:
        monkeypatch.setenv(FILE, str(folder / "secrets.json"))
        asking = [pool.submit(variable_again, "EAST_PASSWORD") for _ in range(8)]
        wait_until(lambda: len(list(folder.glob("*.question"))) == 8, 60, "eight questions")
        with answering(folder, variables):
            assert [one.result(60) for one in asking] == ["second"] * 8
        assert len(looked_up) == 1
        assert list(folder.iterdir()) == []


def test_after_a_look_up_that_fails_in_whatever_way_the_next_one_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[dict[str, str]] = []

    def variables() -> dict[str, str]:
        return found[0]

    with run_folder() as folder, answering(folder, variables):
        monkeypatch.setenv(FILE, str(folder / "secrets.json"))
        with pytest.raises(ConfigError, match=r"could not look it up \(IndexError\)"):
            variable_again("EAST_PASSWORD")
        found.append({"EAST_PASSWORD": "second"})
        assert variable_again("EAST_PASSWORD") == "second"


def test_an_answer_to_a_process_that_was_killed_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_variables, "_PATIENCE_SECONDS", 0.2)
    with run_folder() as folder, answering(folder, lambda: {"EAST_PASSWORD": "second"}):
        (folder / "killed.question").touch()
        wait_until(lambda: (folder / "killed.values").exists(), 60, "an answer")
        wait_until(lambda: not list(folder.iterdir()), 60, "an empty folder")
