"""The list of tests that ``make unit`` leaves out is true, and leaves use cases in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.conftest import SLOW_TESTS

ROOT = Path(__file__).parents[2]
USE_CASES = ROOT / "tests/unit/usecases"
LISTED = SLOW_TESTS.read_text().split()


def test_each_test_of_the_list_exists() -> None:
    gone = [name for name in LISTED if not _exists(*name.split("::"))]
    assert not gone, f"{SLOW_TESTS.name} names tests that are not there: write it again (--write-slow-tests)"


def _exists(path: str, *names: str) -> bool:
    """Tests of a class may be those of a class elsewhere."""
    file = ROOT / path
    return file.exists() and (len(names) > 1 or f"def {names[0]}(" in file.read_text())


@pytest.mark.parametrize("room", sorted({file.parent.name for file in USE_CASES.glob("*/test_*.py")}))
def test_half_of_each_room_of_use_cases_is_quick(room: str) -> None:
    count = sum(file.read_text().count("\ndef test_") for file in (USE_CASES / room).glob("test_*.py"))
    slow = sum(name.startswith(f"tests/unit/usecases/{room}/") for name in LISTED)
    assert slow <= (count + 1) // 2
