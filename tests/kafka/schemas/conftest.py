"""Karapace, where this machine has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from srm_common.testing import LocalKafka
from srm_common.testing.local_karapace import LocalKarapace
from tests.contract.registry_contract import LOGIN


@pytest.fixture(scope="session")
def karapace_python() -> Path:
    python = LocalKarapace.python()
    if python is None:
        pytest.skip("no Karapace: SRM_KARAPACE does not name a Python that has it")
    return python


@pytest.fixture(scope="session")
def source_karapace(karapace_python: Path, source_kafka: LocalKafka) -> Iterator[LocalKarapace]:
    with LocalKarapace(karapace_python, source_kafka.bootstrap_servers) as karapace:
        yield karapace


@pytest.fixture(scope="session")
def target_karapace(karapace_python: Path, target_kafka: LocalKafka) -> Iterator[LocalKarapace]:
    with LocalKarapace(karapace_python, target_kafka.bootstrap_servers) as karapace:
        yield karapace


@pytest.fixture(scope="session")
def guarded(karapace_python: Path, target_kafka: LocalKafka) -> Iterator[LocalKarapace]:
    servers, logins = target_kafka.bootstrap_servers, dict([LOGIN])
    with LocalKarapace(karapace_python, servers, topic="_schemas-guarded", logins=logins) as karapace:
        yield karapace
