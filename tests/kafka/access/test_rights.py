"""The replicator has all rights of docs/acls.md but one: one sentence says which, and nothing is lost. So it is of the
rights that are needed where more is used."""

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
from srm_common.domain.offsets.offset_syncs import OffsetSync
from srm_common.errors import AccessDenied
from srm_common.kafka.state.service_log import read_services
from srm_common.replication.slots.slot import copy_slot
from srm_common.rest.peers.advertiser import Advertiser
from srm_common.settings_files.configuration import load_configuration
from srm_common.testing import LocalKafka
from srm_common.testing.logins import client_properties
from srm_common.wire.mm2 import encode_offset_sync
from tests.kafka.acl_commands import DOCS, bindings_of, create, documented, grant, revoke
from tests.kafka.flows import Seen
from tests.kafka.group_commits import commit
from tests.kafka.records import delete_topic, eventually, grow, produce, read_all
from tests.kafka.state.test_state_topics import alter, settings_of
from tests.kafka.topics.test_auto_creation import contents_of

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


def _where_more_is_used(what: str) -> list[Row]:
    """A row of the page's table of what needs more than the commands give: rights on one topic of the target."""
    page = (DOCS / "acls.md").read_text()
    found = re.search(rf"^\| [^|]*{re.escape(what)}[^|]*\| ([A-Za-z, ]+) on topic `([^`]+)`", page, re.M)
    assert found is not None, what
    operations = " ".join(f"--operation {word}" for word in re.findall(r"[A-Z]\w+", found[1]))
    command = f"kafka-acls.sh --bootstrap-server b --add --allow-principal User:srm {operations} --topic {found[2]}"
    return [Row("target", one) for one in bindings_of(command)]


SYNCS = _where_more_is_used("`offset-syncs.topic.location = target`")
METRICS = _where_more_is_used("`metrics.topic.enabled`")
SERVICES = _where_more_is_used("services that tell each other where they are")
FURTHER = [*SYNCS, *METRICS, *SERVICES]
#: The principals that have all rows but one of these, the one that has all of both but for offset syncs at the source,
#: and the one that meets a state topic with settings that lose state.
_FURTHER = range(_READER + 1, _READER + 1 + len(FURTHER))
_USES_MORE, _REPAIRS = _FURTHER.stop, _FURTHER.stop + 1
USING_MORE = {"offset-syncs.topic.location": "target", "metrics.topic.enabled": "true"}


def _user(number: int) -> str:
    return f"cell{number}"


LOGINS = {_user(number): f"{number}-pw" for number in range(_REPAIRS + 1)}


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

    def alias(self, letter: str) -> str:
        """``a`` is the source, ``b`` the target."""
        return f"{letter}{self.number}"

    def configure(self, more: Mapping[str, str]) -> None:
        a, b = self.alias("a"), self.alias("b")
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
        self.file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))

    @property
    def file(self) -> Path:
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
        code = run(["--config", str(self.file), *words, "--flow", f"a{self.number}->b{self.number}"])
        printed = self.capsys.readouterr()
        return code, printed.out + printed.err

    def equal(self) -> bool:
        """Each record came once, in its place."""
        read = [
            {partition: [one.seen for one in records] for partition, records in read_all(kafka, topic).items()}
            for kafka, topic in ((self.kafkas["source"], self.topic), (self.kafkas["target"], self.copy))
        ]
        return read[0] == read[1]


class Service:
    """What ``srm-control serve`` does beside a flow to be found by others, and to find them."""

    def __init__(self, flow: Flow, log: pytest.LogCaptureFixture) -> None:
        self.url = f"http://service{flow.number}.example:1"
        flow.configure({"service.advertised.url": self.url})
        self._log = log
        self._configuration = load_configuration(flow.file)
        (self._flow,) = self._configuration.enabled_flows

    def said(self) -> str:
        """What it logs when it says that it is there and looks for others; nothing when all is well."""
        self._log.clear()
        Advertiser(lambda: self._configuration).renew()
        try:
            self.known()
        except AccessDenied as error:
            return f"{self._log.text}\n{error}"
        return self._log.text

    def known(self) -> set[str]:
        """Addresses of services on the flow's target."""
        found, _ = read_services(self._flow.target, timeout_seconds=60)
        return {one.url for one in found}


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
        for number in (*_FURTHER, _USES_MORE, _REPAIRS):
            _give_more(both, number)
        yield both
    finally:
        for kafka in both.values():
            kafka.close()


def _give_more(kafkas: Mapping[str, LocalKafka], number: int) -> None:
    """To a principal that uses more: all but its own row, and what the page says it can do without."""
    lacking = FURTHER[number - _FURTHER.start] if number in _FURTHER else None
    more = [] if number == _REPAIRS else [row for row in FURTHER if row is not lacking]
    for side, kafka in kafkas.items():
        rows = [row for row in (*ROWS, *more) if row.side == side]
        if number == _USES_MORE and side == "source":
            rows = [row for row in rows if not row.binding.name.startswith("mm2-offset-syncs")]
        create(kafka, [row.of(number) for row in rows])


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
    lacking = ROWS[number].of(number)
    flow = make_flow(number)
    flow.configure(WITH_ACLS if lacking.restype is ResourceType.BROKER else {})
    _one_fewer(ROWS[number], lacking, flow, full)


@pytest.mark.parametrize("number", _FURTHER[: len(SYNCS) + len(METRICS)], ids=map(str, (*SYNCS, *METRICS)))
def test_one_right_fewer_where_more_is_used_is_one_sentence_and_nothing_is_lost(
    make_flow: Callable[[int], Flow], full: Flow, number: int
) -> None:
    row, flow = FURTHER[number - _FURTHER.start], make_flow(number)
    flow.configure(USING_MORE)
    _one_fewer(row, row.of(number), flow, full)


def test_with_the_rights_of_where_more_is_used_that_works(make_flow: Callable[[int], Flow]) -> None:
    flow = make_flow(_USES_MORE)
    flow.configure(USING_MORE)
    flow.begin()
    for _ in range(2):
        code, printed = flow.command("run")
        assert "needs the right" not in printed
        assert code == 0, printed
        flow.write()
    for name in {row.of(_USES_MORE).name for row in (*SYNCS, *METRICS)}:
        assert any(read_all(flow.kafkas["target"], name).values()), f"nothing was written to {name}"
    there = flow.kafkas["source"].admin().list_topics(timeout=60).topics
    assert not [name for name in there if name.startswith("mm2-offset-syncs") and flow.alias("b") in name.split(".")]
    assert flow.command("run")[0] == 0
    assert flow.equal()


def test_services_find_each_other_with_their_rights(
    make_flow: Callable[[int], Flow], caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(make_flow(_USES_MORE), caplog)
    assert service.said() == ""
    assert service.url in service.known()


@pytest.mark.parametrize("number", _FURTHER[len(SYNCS) + len(METRICS) :], ids=map(str, SERVICES))
def test_one_right_fewer_of_a_service_is_one_sentence(
    make_flow: Callable[[int], Flow], caplog: pytest.LogCaptureFixture, number: int
) -> None:
    row, flow = FURTHER[number - _FURTHER.start], make_flow(number)
    lacking, kafka, service = row.of(number), flow.kafkas[row.side], Service(flow, caplog)
    there = lacking.name in kafka.admin().list_topics(timeout=60).topics
    if lacking.operation is AclOperation.CREATE:
        if there:
            delete_topic(kafka, lacking.name)
    elif not there:
        assert Service(make_flow(_USES_MORE), caplog).said() == ""
    (sentence,) = set(_sentences(lacking, service.said()))
    assert "Traceback" not in sentence
    create(kafka, [lacking])
    eventually(lambda: not service.said() and service.url in service.known(), 180, "a right that was given is no use")


def test_a_state_topic_that_loses_state_is_mended_with_one_right_more_that_is_needed_once(
    make_flow: Callable[[int], Flow],
) -> None:
    flow = make_flow(_REPAIRS)
    flow.configure({})
    flow.begin()
    assert flow.command("run")[0] == 0
    target, topic = flow.kafkas["target"], f"mm2-offsets.{flow.alias('a')}.internal"
    alter(target, topic, "cleanup.policy", "delete")
    flow.write()
    code, printed = flow.command("run")
    assert code in (1, 3), printed
    right = (
        f"kafka-acls.sh --bootstrap-server b --add --allow-principal User:{_user(_REPAIRS)} --operation AlterConfigs "
        f"--topic {topic}"
    )
    (lacking,) = bindings_of(right)
    assert _sentences(lacking, printed), printed
    assert settings_of(target, topic)["cleanup.policy"] == "delete"
    grant(target, right)
    eventually(lambda: flow.command("run")[0] == 0, 180, "a right that was given makes no difference")
    assert settings_of(target, topic)["cleanup.policy"] == "compact"
    revoke(target, right)
    flow.write()
    code, printed = flow.command("run")
    assert (code, "needs the right" in printed) == (0, False), printed
    assert flow.equal()


def _one_fewer(row: Row, lacking: AclBinding, flow: Flow, full: Flow) -> None:
    """Without a right one sentence says so; with it everything is there once."""
    kafka = flow.kafkas[row.side]
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
    if row in SYNCS and lacking.operation is AclOperation.READ:
        # A flow without progress asks what MirrorMaker 2 has left there.
        key, value = encode_offset_sync(OffsetSync("elsewhere", 0, 1, 1))
        flow.kafkas["target"].create_topic(lacking.name, config={"cleanup.policy": "compact"})
        produce(flow.kafkas["target"], lacking.name, 0, [Seen(key, value, (), 1_700_000_000_000)])
    if lacking.operation is AclOperation.ALTER and lacking.restype is ResourceType.BROKER:
        reader = (
            f"kafka-acls.sh --bootstrap-server a --add --allow-principal User:bob --operation Read --topic {flow.topic}"
        )
        grant(flow.kafkas["source"], reader)


def _alter_retention(flow: Flow) -> None:
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
