from __future__ import annotations

import json
from pathlib import Path

import pytest

from srm_common.cli.main import run
from srm_common.domain.flow import names
from srm_common.domain.verification.named_keys import key_digest
from srm_common.testing import FakeCluster
from srm_common.testing.fake_cluster.records import batch_of, records_of, stored
from tests.kafka.flows import flow_between, prepare, properties_of, write


@pytest.fixture
def command(of_flow: list[str]) -> list[str]:
    """Without options."""
    return ["verify", *of_flow]


def test_a_copy_that_is_proved_and_one_that_is_not(
    command: list[str], target_kafka: FakeCluster, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command) == 0
    assert "no difference in 1 partition, 10 records proved" in capsys.readouterr().out
    copy = f"{name.replace('-', '')}.{name}"
    write(target_kafka, copy, [b"not ours"])
    report = tmp_path / "report.json"
    assert run([*command, "--report", str(report)]) == 1
    printed = capsys.readouterr().out
    assert "in 1 of 1 partition the copy differs from what was committed" in printed
    assert "offset 11: records that the flow did not write" in printed
    told = json.loads(report.read_text())
    assert told["counts"] == {"different": 1}
    assert told["partitions"][0]["differences"][0]["kind"] == "foreign"
    assert told["topic_ids"].keys() == {copy}
    filed = tmp_path / "report.html"
    assert run([*command, "--report", str(filed)]) == 1
    capsys.readouterr()
    assert f"Verification of {told['flow'].replace('>', '&gt;')}" in filed.read_text()
    assert run([*command, "-o", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["counts"] == told["counts"]


def test_a_copy_is_compared_with_its_source(
    command: list[str], source_kafka: FakeCluster, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filed = tmp_path / "report.html"
    assert run([*command, "--against", "source", "--report", str(filed)]) == 0
    assert "no difference in 1 partition, 10 records proved" in capsys.readouterr().out
    assert "the records of the source" in filed.read_text()
    source_kafka.close()
    assert run([*command, "--against", "source"]) == 3


def test_keys_are_shown_to_who_asks_and_kept_nowhere(
    command: list[str], target_kafka: FakeCluster, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = command[-1]
    key, value = b"Ada Lovelace", b"a new value"
    log = target_kafka.log(f"{name.replace('-', '')}.{name}", 0)
    records = list(records_of(log.batches[0]))
    records[3] = records[3]._replace(key=key, value=value)
    header = log.batches[0].header
    log.batches[0] = stored(batch_of(records, like=header), header.base_offset, header.leader_epoch)
    compare = [*command, "--against", "source"]
    digest = key_digest(key).hex()
    assert run(compare) == 1
    printed = capsys.readouterr().out
    assert f"key digest {digest}" in printed
    assert "Ada" not in printed
    for ending in ("html", "json"):
        filed = tmp_path / f"report.{ending}"
        assert run([*compare, "--show", "--report", str(filed)]) == 1
        assert f"key digest {digest}; key 'Ada Lovelace'" in capsys.readouterr().out
        assert digest in filed.read_text()
        assert "Ada" not in filed.read_text()
    assert run([*compare, "--show", "-o", "json"]) == 1
    assert "Ada" not in capsys.readouterr().out
    state = names.flow_state_topic(flow.partition("->")[0])
    logs = [
        target_kafka.log(state, partition) for partition in target_kafka.admin().list_topics().topics[state].partitions
    ]
    kept = [str(records_of(batch)) for log in logs for batch in log.batches]
    assert any(digest in one for one in kept)
    assert not any("Ada" in one for one in kept)


def test_repairs_are_proposed_and_not_done(
    command: list[str], target_kafka: FakeCluster, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = ["repair", "--plan", *command[1:]]
    assert run(plan) == 0
    assert "no verification has found a difference" in capsys.readouterr().out
    copy = f"{name.replace('-', '')}.{name}"
    log = target_kafka.log(copy, 0)
    del log.batches[0]
    left = list(log.batches)
    assert run(command) == 1
    assert run(plan) == 1
    printed = capsys.readouterr().out
    assert f"--topic {name} --partition 0 --offset 0" in printed
    assert run([*plan, "-o", "json"]) == 1
    (step,) = json.loads(capsys.readouterr().out)["steps"]
    assert (step["kind"], step["first"]) == ("lost", 0)
    assert log.batches == left


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--sample", "5"], "not a percentage like 5%"),
        (["--sample", "0%"], "not a percentage like 5%"),
        (["--since", "yesterday"], "not a time like 2026-11-23"),
        (["--topic", "(("], "--topic: "),
    ],
)
def test_what_cannot_be_used_is_said(
    command: list[str], options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, *options]) == 2
    assert said in capsys.readouterr().err


def test_a_report_that_cannot_be_written_is_said_before_anything_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = tmp_path / "srm.properties"
    properties.write_text(
        "clusters = a, b\na->b.enabled = true\na.bootstrap.servers = 127.0.0.1:1\nb.bootstrap.servers = 127.0.0.1:2\n"
    )
    command = ["verify", "--config", str(properties)]  # comparing would end with 3
    for path, reason in ((tmp_path / "absent" / "report.html", "No such file"), (tmp_path, "Is a directory")):
        assert run([*command, "--report", str(path)]) == 2
        assert f"{path}: the report cannot be written: {reason}" in capsys.readouterr().err


def test_nothing_of_other_topics_is_compared(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """An empty answer is no proof."""
    assert run([*command, "--topic", "absent.*", "--sample", "5%", "--since", "2026-01-01T00:00+01:00"]) == 2
    assert "has no copy of a topic that matches absent.*" in capsys.readouterr().err


def test_a_flow_without_copies_says_so(
    source_kafka: FakeCluster, target_kafka: FakeCluster, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = flow_between(source_kafka, target_kafka, name)
    prepare(flow)
    file = tmp_path / "srm.properties"
    file.write_text("\n".join(f"{key} = {value}" for key, value in properties_of(flow).items()))
    assert run(["verify", "--config", str(file), "--flow", str(flow.name)]) == 0
    assert "nothing was compared: the flow has copied nothing yet" in capsys.readouterr().out


def test_every_topic_that_is_named_has_a_copy(
    command: list[str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--topic", name, "--topic", "misspelt", "--topic", "x.*"]) == 2
    printed = capsys.readouterr()
    assert printed.err.endswith("has no copy of a topic that matches misspelt, x.*\n")
    assert run([*command, "--topic", name, "--resume"]) == 0
    assert run([*command, "--topic", "misspelt", "--resume"]) == 2


def test_a_sample_with_nothing_in_it_proves_nothing(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--sample", "0.0001%"]) == 1
    assert "nothing was compared: no copied segment is in the sample" in capsys.readouterr().out
    # There was nothing to compare.
    assert run([*command, "--sample", "0.0001%", "--since", "2999-01-01"]) == 0
