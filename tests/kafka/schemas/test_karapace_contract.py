"""A real Karapace answers as our registry in the test's process does: see :mod:`tests.contract.registry_contract`."""

from __future__ import annotations

import pytest

from tests.contract.registry_contract import LoginContract, RegistryContract, Server, WithoutImports

pytestmark = pytest.mark.kafka


@pytest.fixture
def server(source_karapace: Server) -> Server:
    return source_karapace


class TestKarapace(RegistryContract, WithoutImports, LoginContract):
    pass
