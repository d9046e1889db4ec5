"""What a person reads of a checkpoint round."""

from __future__ import annotations

import json

from srm_common.domain.offsets.checkpoint_report import CheckpointReport
from srm_common.domain.offsets.checkpoints import Untranslated


def test_a_quiet_round_is_one_short_line() -> None:
    report = CheckpointReport("a->b", groups=2, checkpoints=1, unchanged=3)
    assert str(report) == "1 checkpoints of 2 groups written, 3 unchanged, 0 offset syncs from 0 segments"
    assert report.lines() == []


def test_what_is_off_and_what_is_not_due_yet() -> None:
    assert str(CheckpointReport("a->b", checkpoints_emitted=False)).startswith("no checkpoints (emit.checkpoints.")
    assert str(CheckpointReport("a->b", due_in_seconds=29.6)).startswith("checkpoints are due in 30 s, ")


def test_every_group_without_a_place_is_listed_with_its_reason() -> None:
    report = CheckpointReport(
        "a->b",
        untranslated=(
            Untranslated("g", "t", 2, 5, "nothing was copied"),
            Untranslated("g", "t", 0, 5, "nothing was copied"),
            Untranslated("g", "t", 1, 5, "too old"),
        ),
        unsupported=(("s", "share"),),
        group_sync_seconds=60.0,
        group_positions=4,
        groups_synced=1,
        groups_in_use=(("u", "stable"),),
        groups_beyond=(("f", 1),),
        shared=(("orders", ("c->b",)),),
        faults=("group x: no right",),
        skipped=("a.checkpoints.internal-0 at offset 3: garbage",),
        rewound=("g",),
        renewed=2,
    )
    assert report.lines() == [
        "group x: no right",
        "group g has no checkpoint on partitions 0, 2 of t: nothing was copied",
        "group g has no checkpoint on partitions 1 of t: too old",
        "group s is a share group: its offsets are not translated",
        "group u is stable on the target: its offsets there are left alone",
        "group f is further ahead on 1 partition of the target than at the source",
        "orders takes records of c->b as well: an offset that skips nothing of one source may skip records of another, "
        "so no group's offsets are committed there",
        "a.checkpoints.internal-0 at offset 3: garbage",
    ]
    text = str(report)
    for part in (
        "3 positions not translated",
        "4 offsets committed for 1 groups on the target (every 60 s at best)",
        "1 group rewound at the source: g",
        "2 checkpoints of former copies replaced",
        "s (share group)",
        "u (stable)",
    ):
        assert part in text
    document = json.loads(json.dumps(report.to_json()))
    assert document["unsupported"] == [{"group": "s", "kind": "share"}]
    assert document["untranslated"][2]["reason"] == "too old"


def test_a_flood_is_bounded_in_the_log_and_whole_for_machines() -> None:
    rows = tuple(Untranslated(f"g{number:04}", "t", 0, 1, "why") for number in range(1000))
    report = CheckpointReport("a->b", untranslated=rows)
    assert len(report.lines()) == 201
    assert report.lines()[-1] == "and 800 more lines like these"
    assert len(str(report)) < 500
    assert len(report.to_json()["untranslated"]) == 1000
