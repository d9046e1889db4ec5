from __future__ import annotations

import pytest

from srm_common.settings_files.checks import findings, notices
from srm_common.settings_files.findings import FindingCode, Severity
from tests.unit.settings_files.conftest import BASE, Load

FLOW = BASE + "A->B.enabled = true\nA->B.topics = x\n"
JSON = "value.format = json\n"
FILTER = "transforms = t\ntransforms.t.type = Filter\npredicates = p\npredicates.p.type = RecordIsTombstone\n"


@pytest.mark.parametrize(
    ("step", "line", "meant"),
    [
        (FILTER + "transforms.t.predicate = p\n", "A->B.transforms.t.negat = true", "A->B.transforms.t.negate"),
        (FILTER + "transforms.t.predicate = p\n", "predicates.p.typ = x", "predicates.p.type"),
        (FILTER + "transforms.t.predicate = p\n", "connectors.transforms.t.negat = x",
         "connectors.transforms.t.negate"),
        (JSON + "transforms = t\ntransforms.t.type = org.apache.kafka.connect.transforms.MaskField$Value\n"
         "transforms.t.fields = card\n", "A->B.transforms.t.replacment = x", "A->B.transforms.t.replacement"),
        (JSON + "A->B.transforms = t\nA->B.transforms.t.type = ReplaceField$Value\ntransforms.t.include = id\n",
         "transforms.t.exlude = card", "transforms.t.exclude"),
    ],
)  # fmt: skip
def test_a_misspelt_setting_of_a_step_is_told(load: Load, step: str, line: str, meant: str) -> None:
    assert findings(load(FLOW + step)) == ()
    (finding,) = findings(load(FLOW + step + line + "\n"))
    assert (finding.severity, finding.code) == (Severity.WARNING, FindingCode.UNKNOWN_KEY)
    assert finding.key == line.partition(" ")[0]
    assert finding.text == f"is unknown and has no effect; did you mean {meant}?"


def test_a_setting_of_another_class_is_told_for_the_flow_whose_class_it_is_not(load: Load) -> None:
    two = JSON + "A->B.transforms = t\nA->B.transforms.t.type = MaskField$Value\nA->B.transforms.t.fields = card\n"
    two += "B->A.enabled = true\nB->A.transforms = t\nB->A.transforms.t.type = Flatten$Value\n"
    two += "streams.replication.manager.driver.target.cluster = A, B\n"
    assert findings(load(FLOW + two + "transforms.t.delimiter = _\n")) == ()
    (finding,) = findings(load(FLOW + two + "A->B.transforms.t.delimiter = _\n"))
    assert finding.text == "is unknown and has no effect"


def test_a_filter_without_a_predicate_is_told_to_its_flow(load: Load) -> None:
    configuration = load(FLOW + FILTER)
    (finding,) = findings(configuration)
    assert (finding.key, finding.severity) == ("transforms.t.type", Severity.WARNING)
    assert finding.text == "is a Filter without a predicate: it drops every record of A->B"
    assert [finding in of_flow for of_flow in notices(configuration).values()] == [True]


def test_a_replace_field_without_fields_is_told(load: Load) -> None:
    step = JSON + "transforms = t\ntransforms.t.type = ReplaceField$Key\nkey.format = json\n"
    (finding,) = findings(load(FLOW + step))
    assert finding.text == "is a ReplaceField without exclude, include and renames: it changes nothing in A->B"
    assert findings(load(FLOW + step + "transforms.t.renames = a:b\n")) == ()
