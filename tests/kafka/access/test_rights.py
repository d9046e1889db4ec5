"""The replicator has all rights of docs/acls.md but one: one sentence says which, and nothing is lost. So it is of the
rights that are needed where more is used."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, ResourcePatternType, ResourceType

from srm_common.domain.offsets.offset_syncs import OffsetSync
from srm_common.errors import AccessDenied
from srm_common.kafka.state.service_log import read_services
from srm_common.rest.peers.advertiser import Advertiser
from srm_common.settings_files.configuration import load_configuration
from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.wire.state.mm2 import encode_offset_sync
from tests.kafka.access.documented_rights import (
    FULL,
    FURTHER,
    IMPLIED,
    LETTERS,
    METRICS,
    READER,
    READING,
    REPAIRS,
    ROWS,
    SEES_NO_GROUPS,
    SERVICES,
    SHARED,
    SYNCS,
    USES_MORE,
    USING_LETTERS,
    USING_MORE,
    WITH_ACLS,
    WITH_FURTHER,
    Flow,
    Row,
    guarded_clusters,
    user_of,
    word_of,
)
from tests.kafka.acl_commands import bindings_of, create, grant, revoke
from tests.kafka.flows import Seen
from tests.kafka.records import contents_of, delete_topic, eventually, grow, produce, read_all
from tests.kafka.state.test_state_topics import alter, settings_of
from tests.slot_worker import here

pytestmark = pytest.mark.kafka


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
        advertisements, _ = read_services(self._flow.target, timeout_seconds=60)
        return {advertisement.url for advertisement in advertisements}


@pytest.fixture(scope="module")
def kafkas(broker_jvm: BrokerJvm) -> Iterator[dict[str, LocalKafka]]:
    with guarded_clusters(broker_jvm) as both:
        yield both


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
        lambda settings, master: here,
    )
    return lambda number: Flow(number, kafkas, tmp_path, capsys)


@pytest.fixture
def full(make_flow: Callable[[int], Flow]) -> Flow:
    """The flow of the principal that has all of them."""
    flow = make_flow(FULL)
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
    "verify",
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
    flow = make_flow(READER)
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


def test_workers_of_mirror_maker_that_may_not_be_seen_are_not_overlooked(make_flow: Callable[[int], Flow]) -> None:
    """Brokers list no group that the principal may not describe: absent is not the same as idle."""
    assert "target-READ-GROUP-*" in map(str, ROWS)
    flow = make_flow(SEES_NO_GROUPS)
    flow.configure({})
    for command in ("takeover --dry-run --watch 0", "handback --dry-run"):
        code, printed = flow.command(*command.split())
        assert (code, f"Describe on group '{flow.alias('a')}-mm2'" in printed) == (3, True), printed


@pytest.mark.parametrize("number", WITH_FURTHER[: len(SYNCS) + len(METRICS)], ids=map(str, (*SYNCS, *METRICS)))
def test_one_right_fewer_where_more_is_used_is_one_sentence_and_nothing_is_lost(
    make_flow: Callable[[int], Flow], full: Flow, number: int
) -> None:
    row, flow = FURTHER[number - WITH_FURTHER.start], make_flow(number)
    flow.configure(USING_MORE)
    _one_fewer(row, row.of(number), flow, full)


def test_with_the_rights_of_where_more_is_used_that_works(make_flow: Callable[[int], Flow]) -> None:
    flow = make_flow(USES_MORE)
    flow.configure(USING_MORE)
    flow.begin()
    for _ in range(2):
        code, printed = flow.command("run")
        assert "needs the right" not in printed
        assert code == 0, printed
        flow.write()
    for name in {row.of(USES_MORE).name for row in (*SYNCS, *METRICS)}:
        assert any(read_all(flow.kafkas["target"], name).values()), f"nothing was written to {name}"
    there = flow.kafkas["source"].admin().list_topics(timeout=60).topics
    assert not [name for name in there if name.startswith("mm2-offset-syncs") and flow.alias("b") in name.split(".")]
    assert flow.command("run")[0] == 0
    assert flow.equal()


def test_services_find_each_other_with_their_rights(
    make_flow: Callable[[int], Flow], caplog: pytest.LogCaptureFixture
) -> None:
    service = Service(make_flow(USES_MORE), caplog)
    assert service.said() == ""
    assert service.url in service.known()


@pytest.mark.parametrize("number", WITH_FURTHER[-len(LETTERS) :], ids=map(str, LETTERS))
def test_one_right_fewer_on_dead_letters_is_one_sentence_and_nothing_is_lost(
    make_flow: Callable[[int], Flow], full: Flow, number: int
) -> None:
    row, flow = FURTHER[number - WITH_FURTHER.start], make_flow(number)
    lacking = row.of(number)
    flow.configure({**USING_LETTERS, "errors.deadletterqueue.topic.name": lacking.name})
    if lacking.operation is not AclOperation.CREATE:
        flow.kafkas[row.side].create_topic(lacking.name)
    _one_fewer(row, lacking, flow, full, begin=flow.write_bad)
    (letters,) = read_all(flow.kafkas[row.side], lacking.name).values()
    assert [letter.seen.value for letter in letters] == [b"{"]


@pytest.mark.parametrize("number", WITH_FURTHER[len(SYNCS) + len(METRICS) : -len(LETTERS)], ids=map(str, SERVICES))
def test_one_right_fewer_of_a_service_is_one_sentence(
    make_flow: Callable[[int], Flow], caplog: pytest.LogCaptureFixture, number: int
) -> None:
    row, flow = FURTHER[number - WITH_FURTHER.start], make_flow(number)
    lacking, kafka, service = row.of(number), flow.kafkas[row.side], Service(flow, caplog)
    there = lacking.name in kafka.admin().list_topics(timeout=60).topics
    if lacking.operation is AclOperation.CREATE:
        if there:
            delete_topic(kafka, lacking.name)
    elif not there:
        assert Service(make_flow(USES_MORE), caplog).said() == ""
    (sentence,) = set(_sentences(lacking, service.said()))
    assert "Traceback" not in sentence
    create(kafka, [lacking])
    eventually(lambda: not service.said() and service.url in service.known(), 300, "a right that was given is no use")


def test_a_state_topic_that_loses_state_is_mended_with_one_right_more_that_is_needed_once(
    make_flow: Callable[[int], Flow],
) -> None:
    flow = make_flow(REPAIRS)
    flow.configure({})
    flow.begin()
    assert flow.command("run")[0] == 0
    target, topic = flow.kafkas["target"], f"mm2-offsets.{flow.alias('a')}.internal"
    alter(target, topic, "cleanup.policy", "delete")
    flow.write()
    code, printed = flow.command("run")
    assert code in (1, 3), printed
    right = (
        f"kafka-acls.sh --bootstrap-server b --add --allow-principal User:{user_of(REPAIRS)} --operation AlterConfigs "
        f"--topic {topic}"
    )
    (lacking,) = bindings_of(right)
    assert _sentences(lacking, printed), printed
    assert settings_of(target, topic)["cleanup.policy"] == "delete"
    grant(target, right)
    eventually(lambda: flow.command("run")[0] == 0, 300, "a right that was given makes no difference")
    assert settings_of(target, topic)["cleanup.policy"] == "compact"
    revoke(target, right)
    flow.write()
    code, printed = flow.command("run")
    assert (code, "needs the right" in printed) == (0, False), printed
    assert flow.equal()


def _one_fewer(
    row: Row, lacking: AclBinding, flow: Flow, full: Flow, *, begin: Callable[[], None] = lambda: None
) -> None:
    """Without a right one sentence says so; with it everything is there once. ``begin``: writes further records."""
    kafka = flow.kafkas[row.side]
    flow.begin()
    begin()
    _make_it_necessary(row, lacking, flow, full)
    commands = ["topics --add other.*"] if lacking.name == "srm-control.internal" else ["run", "run"]
    said: list[str] = []
    for words in commands:
        code, printed = flow.command(*words.split())
        assert "Traceback" not in printed
        sentences = _sentences(lacking, printed)
        if code:
            # 2: the configuration names a dead letter topic that does not exist.
            assert code in ((2,) if _is_no_topic(row) else (1, 3)), printed
            assert sentences, printed
        said += sentences
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

    eventually(whole, 300, "a right that was given makes no difference")
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
        produce(flow.kafkas["target"], lacking.name, 0, [Seen(key, value, (), int(time.time() * 1000))])
    if lacking.operation is AclOperation.ALTER and lacking.restype is ResourceType.BROKER:
        reader = (
            f"kafka-acls.sh --bootstrap-server a --add --allow-principal User:bob --operation Read --topic {flow.topic}"
        )
        grant(flow.kafkas["source"], reader)


def _is_no_topic(row: Row) -> bool:
    return row in LETTERS and row.binding.operation is AclOperation.CREATE


def _alter_retention(flow: Flow) -> None:
    alter(flow.kafkas["source"], flow.topic, "retention.ms", "234567890")


def _sentences(lacking: AclBinding, printed: str) -> list[str]:
    """Those that name principal, right and resource."""
    operation = word_of(lacking.operation)
    rights = "|".join(word.title().replace("_", "") for word in {operation, IMPLIED.get(operation, operation)})
    if lacking.restype is ResourceType.BROKER:
        resource = "on the cluster"
    else:
        kind = word_of(lacking.restype).lower().replace("_", " ")
        any_ = lacking.name == "*"
        open_ = any_ or lacking.resource_pattern_type is ResourcePatternType.PREFIXED
        name = re.escape("" if any_ else lacking.name) + ("[^']*" if open_ else "")
        resource = f"on {kind} '{name}'"
    return re.findall(rf"^.*{lacking.principal} needs the permission (?:{rights}) {resource}.*$", printed, re.M)
