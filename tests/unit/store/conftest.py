"""Says what differs where an assertion in the shared classes fails."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "tests.unit.store.standing",
    "tests.unit.store.samples",
    "tests.unit.store.writers",
    "tests.unit.store.wrong_clocks",
)
