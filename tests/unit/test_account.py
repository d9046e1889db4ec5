"""What a process knows of its account."""

from __future__ import annotations

import os
import pwd
import socket
from pathlib import Path
from typing import NoReturn

import pytest

from srm_common.account import has_name, home_folder, whoami
from srm_common.airflow_bridge.configuration_path import configuration_path
from srm_common.errors import ConfigError, LocalKafkaError, StoreError
from srm_common.replication.spark.class_archive import make_class_archive
from srm_common.replication.spark.spark_conf import account_environment, class_archive, spark_settings
from srm_common.store.location import store_location
from srm_common.testing.artifacts import cache_folder


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container whose account is a bare number, without a home folder."""

    def unknown(uid: int) -> NoReturn:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "LOGNAME", "USER", "LNAME", "USERNAME", "SRM_CACHE", "SRM_SPARK_ARCHIVE", "AIRFLOW_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_an_account_with_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    assert whoami() == f"ann@{socket.gethostname()}"
    assert has_name()
    assert home_folder() == Path.home()


@pytest.mark.usefixtures("nobody")
class TestNobody:
    def test_is_a_number(self) -> None:
        assert whoami() == f"uid {os.getuid()}@{socket.gethostname()}"
        assert not has_name()
        assert home_folder() is None

    def test_starts_spark_without_an_archive(self) -> None:
        assert class_archive() is None
        flags = spark_settings("local[1]", 1)["spark.driver.extraJavaOptions"]
        assert '-Duser.home="/nonexistent"' in flags
        assert "SharedArchiveFile" not in flags
        assert account_environment() == {"SPARK_USER": f"uid{os.getuid()}"}

    def test_may_name_an_archive(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("SRM_CACHE", str(tmp_path))
        found = class_archive()
        assert found is not None
        assert found.parent == tmp_path

    def test_is_told_what_to_set(self) -> None:
        with pytest.raises(ConfigError, match="set SRM_SPARK_ARCHIVE"):
            make_class_archive()
        with pytest.raises(StoreError, match=r"metrics\.database\.url or SRM_DATABASE"):
            store_location(None, {})
        with pytest.raises(StoreError, match="no home"):
            store_location(None, {"AIRFLOW_HOME": "~/airflow"})
        with pytest.raises(ConfigError, match="set SRM_CONFIG"):
            configuration_path()
        with pytest.raises(LocalKafkaError, match="set SRM_CACHE"):
            cache_folder()
