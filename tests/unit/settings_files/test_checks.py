from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from srm_common.settings_files.checks import findings
from srm_common.settings_files.configuration import load_configuration
from srm_common.settings_files.findings import Finding, Severity

Check = Callable[[str], list[Finding]]
BASE = "clusters = A, B, C\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nC.bootstrap.servers = c:1\n"


@pytest.fixture
def check(tmp_path: Path) -> Check:
    def run(text: str) -> list[Finding]:
        path = tmp_path / "srm.properties"
        path.write_text(text, encoding="utf-8")
        return list(findings(load_configuration(path)))

    return run


def test_every_fault_is_a_finding_of_its_own_before_all_others(check: Check) -> None:
    found = check(BASE + "A->B.enabled = true\nA->B.tasks.max = x\nA->B.topics = a(\nA->C.tasks.max = y\nflarp = 1\n")
    assert [finding.severity for finding in found] == [*[Severity.FAULT] * 3, Severity.WARNING]
    assert [finding.place.rpartition(":")[2] for finding in found] == ["7", "6", "8", "9"]
    assert "at position" in found[0].text


def test_a_chain_with_two_policies(check: Check) -> None:
    text = BASE + "A->B.enabled = true\nB->C.enabled = true\nstreams.replication.manager.driver.target.cluster = B, C\n"
    assert check(text) == []
    (mixed,) = check(text + "B->C.replication.policy.class = IdentityReplicationPolicy\n")
    assert mixed.text.startswith("A->B and B->C form a chain and name topics differently (Default")
    assert mixed.place.endswith(":8")
    (separators,) = check(text + "A->B.replication.policy.separator = _\n")
    assert "DefaultReplicationPolicy with '_', then DefaultReplicationPolicy" in separators.text
    assert separators.place.endswith(":8")


def test_push_mode_is_advised_against(check: Check) -> None:
    (push,) = check(BASE + "A->B.enabled = true\nA->C.enabled = true\n")
    assert push.severity is Severity.WARNING
    assert "writes to 2 clusters (B, C), so to some of them from afar (push mode)" in push.text
    pulled = check(
        BASE + "A->B.enabled = true\nA->C.enabled = true\nstreams.replication.manager.driver.target.cluster = C\n"
    )
    assert [(finding.severity, finding.text) for finding in pulled] == [
        (Severity.NOTE, "leaves A->B to another installation")
    ]


def test_two_aliases_of_one_cluster_without_a_flow_between_them(check: Check) -> None:
    found = check(BASE.replace("c:1", "x:1, A:1") + "A->B.enabled = true\nC->B.enabled = true\n")
    assert [finding.text.partition(";")[0] for finding in found] == [
        "'A' and 'C' are the same cluster, as both have a:1"
    ]
    assert found[0].place.endswith(":4")


def test_what_nobody_uses(check: Check) -> None:
    found = check(BASE)
    assert found[0].text == "no flow is enabled; add '<source>-><target>.enabled = true'"
    assert [finding.text for finding in found[1:]] == [f"names '{alias}', which no flow uses" for alias in "ABC"]
    broken = check(BASE.replace("c:1", "c") + "A->B.enabled = true\n")
    assert "'c' is not host:port (no flow uses cluster C)" in broken[0].text
    assert broken[0].severity is Severity.WARNING


def test_offset_syncs_that_are_switched_off(check: Check) -> None:
    (finding,) = check(BASE.replace(", C", "").replace("C.", "#C.") + "A->B.enabled = true\nA->B.offset.lag.max = 5\n"
                     "emit.offset-syncs.enabled = false\n")  # fmt: skip
    assert finding.key == "A->B.offset.lag.max"
    assert finding.text.startswith("has no effect for A->B, as ")


@pytest.mark.parametrize("off", ["emit.checkpoints.enabled = false", "emit.checkpoints.interval.seconds = -1"])
def test_group_sync_without_checkpoints(check: Check, off: str) -> None:
    lines = f"A->B.enabled = true\nA->B.sync.group.offsets.enabled = true\n{off}\n"
    (finding,) = check(BASE.replace(", C", "").replace("C.", "#C.") + lines)
    assert finding.key == "A->B.sync.group.offsets.enabled"
    assert finding.text.startswith("has no effect for A->B, as offsets are committed by checkpoints, and ")


def test_error_handling_has_an_effect_where_schema_ids_are_mapped(check: Check) -> None:
    text = BASE.replace(", C\n", "\n").replace("C.bootstrap.servers = c:1\n", "")
    text += "A.schema.registry.url = http://a:8081\nB.schema.registry.url = http://b:8081\n"
    text += "A->B.enabled = true\nA->B.sync.schemas.enabled = true\nA->B.errors.tolerance = all\n"
    assert [finding.text for finding in check(text)] == ["has no effect for A->B, which has no transforms"]
    assert check(text + "A->B.schemas.ids = map\n") == []
