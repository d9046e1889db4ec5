from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.metrics.samples import MAX_PART_BYTES, ReportAssembly, report_parts
from srm_common.domain.monitoring.run_report import GroupSample, RunReport
from srm_common.domain.runs.run_record import PartitionRecord
from srm_common.errors import CorruptRecord
from tests.unit.domain.monitoring.test_run_report import REPORT, RUN


def large(partitions: int, groups: int, decisions: int) -> RunReport:
    return replace(
        REPORT,
        run=replace(
            RUN,
            partitions=tuple(PartitionRecord(f"topic-{n}", f"a.topic-{n}", n, records=n) for n in range(partitions)),
        ),
        groups=tuple(GroupSample(f"group-{n}", n, n) for n in range(groups)),
        decisions={"decisions": [{"topic": f"topic-{n}", "reason": "because"} for n in range(decisions)]},
        verified={"columns": ["topic", "partition"], "rows": [[f"topic-{n}", n] for n in range(partitions)]},
    )


@given(
    st.integers(0, 60),
    st.integers(0, 20),
    st.integers(0, 20),
    st.integers(1, 20_000),
    st.randoms(use_true_random=False),
)
def test_a_report_is_put_together_from_its_parts(
    partitions: int, groups: int, decisions: int, max_bytes: int, chance: random.Random
) -> None:
    report = replace(large(partitions, groups, decisions), plan=None, filters=None)
    parts = report_parts(report, max_bytes)
    chance.shuffle(parts)
    assembly = ReportAssembly()
    assert [assembly.take(part) for part in parts[:-1]] == [None] * (len(parts) - 1)
    assert assembly.take(parts[-1]) == report


def test_parts_are_below_a_brokers_limit_and_tell_what_they_are() -> None:
    parts = report_parts(large(20_000, 3_000, 20_000))
    assert len(parts) > 3
    assert max(map(len, parts)) < 1_000_000
    second = json.loads(parts[1])
    assert (second["flow"], second["run_id"], second["part"], second["parts"]) == ("a->b", "run-1", 1, len(parts))
    row = dict(zip(second["columns"]["partitions"], second["partitions"][0], strict=True))
    assert row["downstream_topic"] == f"a.{row['upstream_topic']}"


def test_a_document_that_fills_a_part_is_left_out() -> None:
    report = replace(REPORT, plan={"actions": ["x" * MAX_PART_BYTES]}, filters={"lists": {}})
    (part,) = report_parts(report)
    run_report = ReportAssembly().take(part)
    assert run_report is not None
    assert (run_report.plan, run_report.filters) == (None, {"lists": {}})


def test_parts_of_two_attempts_do_not_mix_and_lost_ones_are_forgotten() -> None:
    assembly = ReportAssembly()
    first, second = (report_parts(replace(large(40, 0, 0), reported_ms=at), 2_000) for at in (1, 2))
    assert len(first) > 1
    mixed = [part for pair in zip(first, second, strict=True) for part in pair]
    done = [report.reported_ms for part in mixed if (report := assembly.take(part)) is not None]
    assert done == [1, 2]
    for at in range(20):
        assembly.take(report_parts(replace(large(40, 0, 0), reported_ms=at), 2_000)[0])
    assert assembly.take(second[0]) is None
    assert [assembly.take(part) is None for part in second[1:]][-1] is False


@pytest.mark.parametrize(
    "value", [b"\xff", b"{}", b"[]", b"[" * 100_000, b'{"version": 2}', b'{"version": 1, "flow": "a->b"}']
)
def test_what_is_no_part_is_refused(value: bytes) -> None:
    with pytest.raises(CorruptRecord, match="raw metrics"):
        ReportAssembly().take(value)
