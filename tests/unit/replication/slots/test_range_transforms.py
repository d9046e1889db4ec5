from __future__ import annotations

from functools import partial
from typing import Any, cast

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.patterns.name_filter import NameFilter, PatternList
from srm_common.domain.runs.copying import CopyJob, CopyRange
from srm_common.domain.schemas.id_mapping import IdMapping
from srm_common.domain.schemas.schemas import SubjectNaming
from srm_common.domain.transforms.formats import Side
from srm_common.errors import TransformFailed
from srm_common.replication.slots.range_transforms import range_transforms
from tests.unit.records.test_schema_id_step import batch, framed


class Ids:
    def mapped(self, number: int, topic: str, side: Side) -> int | None:
        return 10 * number

    def is_own(self, number: int, topic: str, side: Side) -> bool:
        return topic == "orders"


def values(topic: str, value: bytes) -> list[bytes | None]:
    """What a job with the default of ``schemas.ids.values``, and one expression more, makes of a value."""
    naming = SubjectNaming(NameFilter.of("schemas.subjects", [".*"], []))
    mapping = IdMapping(naming, PatternList(()), PatternList(["payments", ".*"]))
    source, target = (ClusterSettings.plaintext(one, "127.0.0.1:1") for one in "ab")
    job = CopyJob("a->b", "a", source, target, "o", 1, "s", 1, id_mapping=mapping)
    of = range_transforms(job, 0, registries=cast(Any, Ids()))(CopyRange(topic, f"a.{topic}", 0, 0, 9))
    assert isinstance(of, partial)
    column: list[bytes | None] = of.keywords["transform"].apply(batch([None], [value])).records.column(3).to_pylist()
    return column


def test_only_the_default_for_all_topics_leaves_it_open_whether_numbers_are_ids() -> None:
    number = framed(2, b"abc")
    assert values("orders", number) == values("payments", number) == [framed(20, b"abc")]
    assert values("totals", number + b"d") == [framed(20, b"abcd")]
    with pytest.raises(TransformFailed, match="values of totals are 8 bytes"):
        values("totals", number)
