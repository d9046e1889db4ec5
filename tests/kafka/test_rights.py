"""The replicator has all rights of docs/acls.md but one: one sentence says which, and nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AclBinding, AclOperation, ResourcePatternType, ResourceType

from srm_common.cli.main import run
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import LocalKafka
from srm_common.testing.logins import client_properties
from tests.kafka.acl_commands import bindings_of, create, documented, grant
from tests.kafka.flows import Seen
from tests.kafka.groups import commit
from tests.kafka.records import delete_topic, eventually, grow, produce, read_all
from tests.kafka.test_auto_creation import contents_of

pytestmark = pytest.mark.kafka


class Row(NamedTuple):
    """One right of the page, as it is written there for ``User:srm`` and a flow ``a->b``."""

    side: str
    binding: AclBinding

    def __str__(self) -> str:
        one = self.binding
        return f"{self.side}-{_word(one.operation)}-{_word(one.restype)}-{one.name}"

    def of(self, number: int) -> AclBinding:
        """The same for a principal and a flow of their own."""
        one = self.binding
        name = one.name
        if one.restype is not ResourceType.BROKER:
            name = re.sub(r"\b[ab]\b", lambda alias: f"{alias[0]}{number}", name)
        who = f"User:{_user(number)}"
        return AclBinding(one.restype, name, one.resource_pattern_type, who, "*", one.operation, one.permission_type)


def _word(value: object) -> str:
    """The library's types allow plain numbers and strings, too."""
    assert isinstance(value, Enum)
    return value.name


ROWS = [
    Row(side, binding)
    for side, variable in (("source", "A"), ("target", "B"))
    for command in documented("acls.md", variable)
    for binding in bindings_of(command)
]
#: What an operation brings along (``StandardAuthorizer``): without both, the smaller one is missed first.
IMPLIED = {
    "READ": "DESCRIBE",
    "WRITE": "DESCRIBE",
    "ALTER": "DESCRIBE",
    "ALTER_CONFIGS": "DESCRIBE_CONFIGS",
}
#: Topics that all flows share.
SHARED = ("heartbeats", "srm-meta.internal", "srm-control.internal")
_FULL, _READER = len(ROWS), len(ROWS) + 1
#: For a source that is only read; what it needs at the target besides.
READING = {
    "offset-syncs.topic.location": "target",
    "heartbeats.topic.location": "target",
}
WITH_ACLS = {"sync.topic.acls.enabled": "true"}
SYNCS = [
    Row("target", one)
    for one in bindings_of(
        "kafka-acls.sh --bootstrap-server b --add --allow-principal User:srm --operation Create --operation Read "
        "--operation Write --operation DescribeConfigs --topic mm2-offset-syncs.a.internal"
    )
]


def _user(number: int) -> str:
    return f"cell{number}"


LOGINS = {_user(number): f"{number}-pw" for number in range(_READER + 1)}


@dataclass
class Flow:
    """A flow, its principal, and the commands about it."""

    number: int
    kafkas: dict[str, LocalKafka]
    folder: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def topic(self) -> str:
        return f"data{self.number}"

    @property
    def group(self) -> str:
        return f"group{self.number}"

    @property
    def copy(self) -> str:
        return f"a{self.number}.{self.topic}"

    def configure(self, more: Mapping[str, str]) -> None:
        a, b = f"a{self.number}", f"b{self.number}"
        properties: dict[str, object] = {
            "clusters": f"{a}, {b}",
            f"{a}->{b}.enabled": "true",
            f"{a}->{b}.topics": self.topic,
            f"{a}->{b}.groups": self.group,
            "tasks.max": 1,
            "replication.factor": -1,
            "retry.timeout.seconds": 5,
            "sync.group.offsets.enabled": "true",
            "emit.checkpoints.interval.seconds": 1,
            # By ACL sync who may read the source may read the copies, the replicator as well.
            "sync.topic.acls.enabled": "false",
            "refresh.topics.interval.seconds": 0,
            "sync.topic.configs.interval.seconds": 0,
            **more,
        }
        for alias, side in ((a, "source"), (b, "target")):
            user = _user(self.number)
            login = {"bootstrap.servers": self.kafkas[side].bootstrap_servers, **client_properties(user, LOGINS[user])}
            properties |= {f"{alias}.{key}": value for key, value in login.items()}
        self._file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))

    @property
    def _file(self) -> Path:
        return self.folder / f"flow{self.number}.properties"

    def begin(self) -> None:
        """Records and a group that has read some of them."""
        source = self.kafkas["source"]
        source.create_topic(self.topic, config={"retention.ms": "123456789"})
        self.write()
        commit(source, self.group, TopicPartition(self.topic, 0, 3))

    def write(self) -> None:
        produce(self.kafkas["source"], self.topic, 0, [Seen(b"k", b"value", (), 1_700_000_000_000)] * 10)

    def command(self, *words: str) -> tuple[int, str]:
        """Exit code, and all that was printed."""
        code = run(["--config", str(self._file), *words, "--flow", f"a{self.number}->b{self.number}"])
        printed = self.capsys.readouterr()
        return code, printed.out + printed.err

    def equal(self) -> bool:
        """Each record came once, in its place."""
        read = [
            {partition: [one.seen for one in records] for partition, records in read_all(kafka, topic).items()}
            for kafka, topic in ((self.kafkas["source"], self.topic), (self.kafkas["target"], self.copy))
        ]
        return read[0] == read[1]


@pytest.fixture(scope="module")
def kafkas() -> Iterator[dict[str, LocalKafka]]:
    """Brokers that give each principal all rights but its own row, and the last one all of them."""
    both = {side: LocalKafka(name=side, logins=LOGINS) for side in ("source", "target")}
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(LocalKafka.start, both.values()))
        for side, kafka in both.items():
            mine = [row for row in ROWS if row.side == side]
            create(kafka, [row.of(number) for number in range(_FULL + 1) for row in mine if row is not _row(number)])
            reading = [row for row in mine if side == "target" or row.binding.name == "*"]
            create(kafka, [row.of(_READER) for row in reading])
        create(both["target"], [row.of(_READER) for row in SYNCS])
        yield both
    finally:
        for kafka in both.values():
            kafka.close()


def _row(number: int) -> Row | None:
    return None if number == _FULL else ROWS[number]


@pytest.fixture
def make_flow(
    kafkas: dict[str, LocalKafka],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[int], Flow]:
    # Slots are copied here, not in Spark.
    monkeypatch.setattr(
        "srm_common.cli.commands.run.pass_runner",
        lambda settings, master: lambda job, tasks: [copy_slot(job, task) for task in tasks],
    )
    return lambda number: Flow(number, kafkas, tmp_path, capsys)


@pytest.fixture
def full(make_flow: Callable[[int], Flow]) -> Flow:
    """The flow of the principal that has all of them."""
    flow = make_flow(_FULL)
    flow.configure(WITH_ACLS)
    if flow.topic not in flow.kafkas["source"].admin().list_topics(timeout=60).topics:
        flow.begin()
    return flow


#: Whatever asks a cluster; options that it needs.
EVERYTHING = (
    "apply",
    "run",
    "plan",
    "topics --add other.*",
    "topics --explain",
    "groups --explain",
    "status",
    "offsets --all-groups",
    "offsets apply --all-groups",
    "source-offsets list",
    "source-offsets set --topic {topic} --partition 0 --offset 5",
    "run",
    "source-offsets reset --topic {topic} --to earliest",
    "run",
    "check-copies",
    "repair",
    "handback --dry-run",
    "takeover --dry-run --watch 0",
    "failover --dry-run --wait 0",
    "failover --wait 0",
)


def test_with_all_rights_every_command_does_its_work(full: Flow) -> None:
    for words in EVERYTHING:
        code, printed = full.command(*words.format(topic=full.topic).split())
        assert "AUTHORIZATION" not in printed, (words, printed)
        assert "needs the permission" not in printed, (words, printed)
        assert code in (0, 1), (words, printed)


def test_nothing_is_written_to_a_source_that_may_only_be_read(make_flow: Callable[[int], Flow]) -> None:
    flow = make_flow(_READER)
    flow.configure(READING)
    flow.begin()
    source = flow.kafkas["source"]
    before = contents_of(source)
    for words in EVERYTHING:
        code, printed = flow.command(*words.format(topic=flow.topic).split())
        assert "AUTHORIZATION" not in printed, (words, printed)
        assert "needs the permission" not in printed, (words, printed)
        assert code in (0, 1), (words, printed)
        assert contents_of(source) == before, words


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[str(row) for row in ROWS])
def test_one_right_fewer_is_one_sentence_and_nothing_is_lost(
    make_flow: Callable[[int], Flow], full: Flow, number: int
) -> None:
    row, flow = ROWS[number], make_flow(number)
    lacking, kafka = row.of(number), flow.kafkas[row.side]
    flow.configure(WITH_ACLS if lacking.restype is ResourceType.BROKER else {})
    flow.begin()
    _make_it_necessary(row, lacking, flow, full)
    commands = ["topics --add other.*"] if lacking.name == "srm-control.internal" else ["run", "run"]
    said: list[str] = []
    for words in commands:
        code, printed = flow.command(*words.split())
        assert "Traceback" not in printed
        found = _sentences(lacking, printed)
        if code:
            assert code in (1, 3), printed
            assert found, printed
        said += found
        if said:
            break
        if lacking.operation is AclOperation.ALTER:
            grow(flow.kafkas["source"], flow.topic, 2)
        elif lacking.operation is AclOperation.ALTER_CONFIGS:
            _alter_retention(flow)
        else:
            flow.write()
    assert said, f"{row} is not needed"
    create(kafka, [lacking])

    def whole() -> bool:
        # Until the broker has taken in the right.
        code, printed = flow.command("run")
        return code == 0 and "needs the permission" not in printed

    eventually(whole, 180, "a right that was given makes no difference")
    assert flow.equal()


def _make_it_necessary(row: Row, lacking: AclBinding, flow: Flow, full: Flow) -> None:
    if lacking.name in SHARED:
        kafka = flow.kafkas[row.side]
        there = lacking.name in kafka.admin().list_topics(timeout=60).topics
        if lacking.operation is AclOperation.CREATE:
            if there:
                delete_topic(kafka, lacking.name)
        elif not there:
            full.command("run")
            full.command("topics", "--add", "another.*")
    if lacking.operation is AclOperation.ALTER and lacking.restype is ResourceType.BROKER:
        reader = (
            f"kafka-acls.sh --bootstrap-server a --add --allow-principal User:bob --operation Read --topic {flow.topic}"
        )
        grant(flow.kafkas["source"], reader)


def _alter_retention(flow: Flow) -> None:
    from tests.kafka.test_state_topics import alter

    alter(flow.kafkas["source"], flow.topic, "retention.ms", "234567890")


def _sentences(lacking: AclBinding, printed: str) -> list[str]:
    """Those that name principal, right and resource."""
    operation = _word(lacking.operation)
    rights = "|".join(word.title().replace("_", "") for word in {operation, IMPLIED.get(operation, operation)})
    if lacking.restype is ResourceType.BROKER:
        resource = "on the cluster"
    else:
        kind = _word(lacking.restype).lower().replace("_", " ")
        any_ = lacking.name == "*"
        open_ = any_ or lacking.resource_pattern_type is ResourcePatternType.PREFIXED
        name = re.escape("" if any_ else lacking.name) + ("[^']*" if open_ else "")
        resource = f"on {kind} '{name}'"
    return re.findall(rf"^.*{lacking.principal} needs the permission (?:{rights}) {resource}.*$", printed, re.M)
