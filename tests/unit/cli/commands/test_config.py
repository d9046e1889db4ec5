from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from srm_common.cli.main import run

TEXT = """\
clusters = a, b
a.bootstrap.servers = a:1
a.security.protocol = SASL_PLAINTEXT
a.sasl.mechanism = PLAIN
a.sasl.username = me
a.sasl.password = hush-hush
b.bootstrap.servers = ${env:SRM_TEST_B}
a->b.enabled = true
tasks.max = 3
a->b.tasks.max = 5
b.topics = x
flarp = 1
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SRM_TEST_B", "b:1")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "srm.properties"
    path.write_text(TEXT)
    return path


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert run(["config", *arguments, "--output", "json"]) == code
    out = capsys.readouterr().out
    assert "hush" not in out
    return json.loads(out)


def test_check_prints_what_is_wrong_and_where(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "check"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["warning", "srm.properties:12", "flarp", "is", "unknown", "and", "has", "no", "effect"] in lines
    assert ["srm.properties:", "enabled:", "a->b;", "2", "warnings"] in lines
    found = answer(capsys, "check")
    assert found["flows"] == ["a->b"]
    assert {"severity", "place", "key", "flow", "text"} == set(found["findings"][0])


def test_check_ends_with_2_when_there_is_a_fault(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT + "b->a.tasks.max = x\n")
    found = answer(capsys, "check", code=2)["findings"]
    assert (found[0]["severity"], found[0]["flow"], found[0]["place"]) == ("fault", "b->a", "srm.properties:13")
    file.write_text("")
    (found,) = answer(capsys, "check", code=2)["findings"]
    assert found["text"].startswith("the file is empty")
    assert run(["config", "check", "--config", "nowhere.properties"]) == 2
    assert "there is no such file" in capsys.readouterr().out


def test_check_may_leave_airflow_alone(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT + "b.connection = kafka_nowhere\n")
    assert "'kafka_nowhere', which this process does not find" in answer(capsys, "check", code=2)["findings"][0]["text"]
    assert all(finding["severity"] != "fault" for finding in answer(capsys, "check", "--without-airflow")["findings"])


def test_explain_tells_origin_default_and_meaning(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = answer(capsys, "explain", "tasks.max")["explanations"]
    assert found["value"] == "5"
    assert found["origin"] == {
        "level": "<source>-><target>.key", "key": "a->b.tasks.max", "place": "srm.properties:10", "value": "5"
    }  # fmt: skip
    assert [other["place"] for other in found["overrides"]] == ["srm.properties:9"]
    assert (found["default"], found["type"]) == ("2", "whole number")
    assert run(["config", "explain", "--flow", "a->b", "tasks.max"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("a->b: tasks.max = 5\n")
    assert "  overrides         tasks.max = 3 in " in text
    (found,) = answer(capsys, "explain", "chunk.bytes")["explanations"]
    assert (found["origin"], found["value"]) == (None, "67108864")


def test_explain_masks_secrets_and_knows_both_sides(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = answer(capsys, "explain", "sasl.password")["explanations"]
    assert (source["side"], source["value"], target["value"]) == ("source", "***", None)
    assert source["origin"]["place"] == "srm.properties:6"
    _, target = answer(capsys, "explain", "bootstrap.servers")["explanations"]
    assert target["value"] == "b:1"


def test_explain_of_what_is_no_key(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "explain", "task.max"]) == 2
    assert "there is no key 'task.max'; did you mean 'tasks.max'?" in capsys.readouterr().err
    assert run(["config", "explain", "tasks.max", "--flow", "a->c"]) == 2
    assert "'c' is not one of the clusters (a, b)" in capsys.readouterr().err


def test_show_lists_every_value_with_its_origin(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "show")
    values = {(value["side"], value["key"]): value for value in found["values"]}
    assert values[None, "tasks.max"]["value"] == "5"
    assert values[None, "replication.policy.class"]["origin"] is None
    assert values["source", "sasl.password"]["value"] == "***"
    assert values["target", "bootstrap.servers"]["origin"]["place"] == "srm.properties:7"
    written = answer(capsys, "show", "--written")["values"]
    assert 0 < len(written) < len(found["values"])
    assert all(value["origin"] for value in written)


def test_show_lists_transforms_and_predicates(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = "transforms = gone\ntransforms.gone.type = Filter\ntransforms.gone.predicate = old\n"
    more = "predicates = old\npredicates.old.type = RecordIsTombstone\na->b.transforms.gone.predicate = gone\n"
    file.write_text(TEXT + lines + more + "a->b.predicates = gone\npredicates.gone.type = RecordIsTombstone\n")
    shown = {value["key"]: value for value in answer(capsys, "show", "--written")["values"]}
    found = {key: value["value"] for key, value in shown.items() if key.startswith(("transforms", "predicates"))}
    assert found == {
        "transforms": "gone",
        "transforms.gone.type": "Filter",
        "transforms.gone.predicate": "gone",
        "predicates": "gone",
        "predicates.old.type": "RecordIsTombstone",
        "predicates.gone.type": "RecordIsTombstone",
    }
    assert [one["value"] for one in shown["transforms.gone.predicate"]["overrides"]] == ["old"]


def test_show_lists_statements(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = {
        "transforms.sql": "SELECT key FROM records WHERE value IS NOT NULL",
        "transforms.sql.few": "SELECT value FROM records",
        "transforms.sql.few.topics": "few.*",
    }
    file.write_text(TEXT + "".join(f"a->b.{key} = {value}\n" for key, value in keys.items()))
    shown = {value["key"]: value["value"] for value in answer(capsys, "show", "--written")["values"]}
    assert {key: value for key, value in shown.items() if key.startswith("transforms")} == keys
    assert not [one for one in answer(capsys, "check")["findings"] if "sql" in one["key"]]


def test_show_lists_what_values_are_for_transforms(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    converter = "value.converter = org.apache.kafka.connect.json.JsonConverter"
    more = "b.value.converter.schemas.enable = false"
    lines = ("transforms = card", "transforms.card.type = MaskField$Value", "transforms.card.fields = card")
    file.write_text(TEXT + "\n".join((converter, more, *lines)))
    shown = {value["key"]: value["value"] for value in answer(capsys, "show", "--written")["values"]}
    assert shown["value.converter"] == "org.apache.kafka.connect.json.JsonConverter"
    assert shown["value.converter.schemas.enable"] == "false"


def test_a_faulty_flow_is_shown_with_its_fault(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(TEXT.replace("a->b.tasks.max = 5", "a->b.tasks.max = five"))
    found = answer(capsys, "show")
    assert "must be a whole number, but is 'five'" in found["fault"]
    assert answer(capsys, "explain", "tasks.max")["explanations"][0]["value"] == "five"


def test_several_files(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "more.properties").write_text("tasks.max = 4\n")
    assert "has one value in" in answer(capsys, "check", "--config", str(tmp_path), code=2)["findings"][0]["text"]
    (tmp_path / "more.properties").write_text("chunk.seconds = 4\n")
    (found,) = answer(capsys, "explain", "chunk.seconds", "--config", f"{file}:more.properties")["explanations"]
    assert found["origin"]["place"] == "more.properties:1"


def test_convert_prints_a_file_or_writes_one(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = ", ".join(f"topic-{number}" for number in range(200))
    file.write_text(TEXT + f"a->b.topics = {long}\n")
    assert run(["config", "convert", str(file)]) == 0
    printed = capsys.readouterr().out
    assert f"a->b.topics = {long}" in printed.splitlines()  # no line is broken
    assert "hush" not in printed
    written = tmp_path / "new.properties"
    assert run(["config", "convert", str(file), "--to", str(written)]) == 0
    assert "set A_SASL_PASSWORD: " in capsys.readouterr().out
    assert written.read_text() == printed
    assert run(["config", "convert", str(file), "--to", str(written)]) == 2
    assert "new.properties: already exists" in capsys.readouterr().err
    found = answer(capsys, "convert", str(file))
    assert (found["from"], list(found["variables"])) == ("mm2", ["A_SASL_PASSWORD"])
