"""Karapace, where this machine has it, and what stands in for it elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from srm_common.testing import LocalKafka, LocalRegistry
from srm_common.testing.local_karapace import LocalKarapace
from tests.contract.registry_contract import LOGIN, Server


@pytest.fixture(scope="session")
def karapace_python() -> Path:
    python = LocalKarapace.python()
    if python is None:
        pytest.skip("no Karapace: SRM_KARAPACE does not name a Python that has it")
    return python


@pytest.fixture(scope="session")
def source_registry(source_kafka: LocalKafka) -> Iterator[Server]:
    with _registry(source_kafka) as registry:
        yield registry


@pytest.fixture(scope="session")
def target_registry(target_kafka: LocalKafka) -> Iterator[Server]:
    with _registry(target_kafka) as registry:
        yield registry


@pytest.fixture(scope="session")
def guarded_registry(target_kafka: LocalKafka) -> Iterator[Server]:
    with _registry(target_kafka, topic="_schemas-guarded", logins=dict([LOGIN])) as registry:
        yield registry


@pytest.fixture(scope="session")
def source_karapace(karapace_python: Path, source_registry: Server) -> Server:
    return source_registry


@pytest.fixture(scope="session")
def target_karapace(karapace_python: Path, target_registry: Server) -> Server:
    return target_registry


@pytest.fixture(scope="session")
def guarded(karapace_python: Path, guarded_registry: Server) -> Server:
    return guarded_registry


def _registry(
    kafka: LocalKafka, *, topic: str = "_schemas", logins: dict[str, str] | None = None
) -> LocalKarapace | LocalRegistry:
    """A Karapace, or the registry that the contract suite holds against it."""
    python = LocalKarapace.python()
    if python is not None:
        return LocalKarapace(python, kafka.bootstrap_servers, topic=topic, logins=logins)
    login = next((f"{user}:{password}" for user, password in (logins or {}).items()), None)
    return LocalRegistry(imports=False, contexts=False, login=login)
