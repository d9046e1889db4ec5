"""What docs/reliability.md says of the mutants of the simulation."""

from __future__ import annotations

from tests.reports import RELIABILITY
from tests.simulation.mutants import MUTANTS
from tests.simulation.mutants.mutant import Mutant
from tests.simulation.mutations import BEGIN, END, Judged, table


def test_each_mutant_has_a_row_that_says_what_has_noticed_it() -> None:
    played = Mutant("a wait is left out", "srm_common.kafka.log", "", "")
    tested = Mutant("an order is turned", "srm_common.wire.state", "", "", "tests/unit/test_a.py::test_b")
    text = table(
        [
            Judged(played, True, "seed 5, Wrong: 2 | 3"),
            Judged(tested, True, "1 failed"),
            Judged(played, False, "200 seeds"),
            Judged(tested, False, "1 passed"),
        ],
        "0123abcd",
        200,
    ).splitlines()
    assert text[0] == (
        "2 of 4 mutants are noticed (commit 0123abcd): 1 by the simulation within 200 seeds, "
        "1 by the test that is named."
    )
    assert text[4:] == [
        "| a wait is left out | `kafka.log` | seed 5, 2 \\| 3 |",
        "| an order is turned | `wire.state` | `test_a.py`: `test_b` |",
        "| a wait is left out | `kafka.log` | **nothing** (200 seeds) |",
        "| an order is turned | `wire.state` | **nothing** (tests/unit/test_a.py::test_b) |",
    ]


def test_the_page_has_a_row_for_each_mutant() -> None:
    """Written again when mutants are added: ``python -m tests.simulation.mutations --write``."""
    text = RELIABILITY.read_text(encoding="utf-8")
    rows = text[text.index(BEGIN) : text.index(END)].splitlines()[5:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [mutant.name for mutant in MUTANTS]
