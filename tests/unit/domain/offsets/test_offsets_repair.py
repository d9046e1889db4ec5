from __future__ import annotations

import pytest

from srm_common.domain.offsets.offsets_repair import CopyEnd, repair_action
from srm_common.domain.offsets.segments import Run, Segment

LAST = Segment("t", 2, 50, 103, 51, 101, (Run(50, 50, 51, 50),))


def test_the_end_of_the_map_is_the_position() -> None:
    action = repair_action(LAST, CopyEnd(102, 0))
    assert (action.topic, action.partition, action.next_offset) == ("t", 2, 103)
    assert "upstream 102 at downstream 100" in action.proof


@pytest.mark.parametrize(
    ("end", "reason"),
    [(CopyEnd(90, 0), "gone"), (CopyEnd(200, 5), "5 or more records"), ("it is away", "it is away")],
)
def test_what_the_copy_contradicts_is_not_written(end: CopyEnd | str, reason: str) -> None:
    action = repair_action(LAST, end)
    assert action.next_offset is None
    assert reason in action.proof
