"""A real Karapace answers as our registry in the test's process does: see :mod:`tests.contract.registry_contract`."""

from __future__ import annotations

import pytest

from srm_common.testing.local_karapace import LocalKarapace
from tests.contract.registry_contract import LoginContract, RegistryContract, WithoutImports

pytestmark = pytest.mark.kafka


@pytest.fixture
def server(source_karapace: LocalKarapace) -> LocalKarapace:
    return source_karapace


class TestKarapace(RegistryContract, WithoutImports, LoginContract):
    pass
