"""The registry in the test's process answers as real ones do: see :mod:`tests.contract.registry_contract`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from srm_common.testing import LocalRegistry
from tests.contract.registry_contract import LOGIN, LoginContract, RegistryContract, WithoutImports


@pytest.fixture
def guarded() -> Iterator[LocalRegistry]:
    with LocalRegistry(login=":".join(LOGIN), imports=False, contexts=False) as server:
        yield server


class TestConfluent(RegistryContract):
    @pytest.fixture
    def server(self) -> Iterator[LocalRegistry]:
        with LocalRegistry() as server:
            yield server


class TestKarapace(RegistryContract, WithoutImports, LoginContract):
    @pytest.fixture
    def server(self) -> Iterator[LocalRegistry]:
        with LocalRegistry(imports=False, contexts=False) as server:
            yield server
