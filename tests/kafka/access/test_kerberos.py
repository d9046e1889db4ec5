"""Clusters that take nobody without Kerberos: a real KDC, keytabs and ticket caches, on both sides of a flow."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from srm_common.cli.main import run
from srm_common.domain.cluster import KerberosLogin
from srm_common.domain.topic_partition import TopicPartition as Place
from srm_common.errors import AccessDenied, UnreachableCluster
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.links.link_admin import LinkAdmin
from srm_common.kafka.client.logins.kerberos import KerberosTickets
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.settings_files.configuration import load_configuration
from srm_common.testing import LocalKafka
from srm_common.wire.state.plain_records import NewRecord
from tests.kafka.access.test_rights import EVERYTHING
from tests.kafka.acl_commands import bindings_of, create, documented
from tests.kafka.flows import Seen
from tests.kafka.group_commits import commit
from tests.kafka.records import produce, read_all
from tests.kdc import REALM, LocalKdc, needs_kerberos
from tests.kerberized import HOST, REAUTHENTICATION_MS, asked, broker, by_keytab, by_ticket_cache, running
from tests.slot_worker import here

pytestmark = needs_kerberos


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKdc]:
    with asked(tmp_path_factory.mktemp("kdc")) as kdc:
        yield kdc


@pytest.fixture(scope="module")
def kafkas(kdc: LocalKdc, certificate: Path) -> Iterator[dict[str, LocalKafka]]:
    both = {"source": broker(kdc, "source", "kafka"), "target": broker(kdc, "target", "otherkafka", certificate)}
    with running(*both.values()):
        yield both


@pytest.fixture(scope="module")
def keytabs(kdc: LocalKdc) -> dict[str, Path]:
    return {name: kdc.keytab(name) for name in ("copier", "reader", "stranger")}


@pytest.fixture
def written(tmp_path: Path, kafkas: dict[str, LocalKafka]) -> Callable[..., Path]:
    """Writes a file for a flow a->b of ``topic``."""

    def write(topic: str, source: Mapping[str, str], target: Mapping[str, str], **more: str) -> Path:
        properties: dict[str, object] = {
            "clusters": "a, b",
            "a->b.enabled": "true",
            "a->b.topics": topic,
            "a->b.groups": f"{topic}-group",
            "tasks.max": 2,
            "replication.factor": -1,
            "retry.timeout.seconds": 20,
            "sync.group.offsets.enabled": "true",
            "emit.checkpoints.interval.seconds": 1,
            "sync.topic.acls.enabled": "true",
            **{key.replace("_", "."): value for key, value in more.items()},
        }
        for alias, side, login in (("a", "source", source), ("b", "target", target)):
            properties |= {f"{alias}.bootstrap.servers": kafkas[side].bootstrap_servers}
            properties |= {f"{alias}.{key}": value for key, value in login.items()}
        path = tmp_path / "srm.properties"
        path.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
        return path

    return write


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    # Slots are copied here, not in Spark.
    monkeypatch.setattr(
        "srm_common.cli.commands.run.pass_runner",
        lambda settings, master: here,
    )

    def call(file: Path, *words: str) -> tuple[int, str]:
        code = run(["--config", str(file), *words, "--flow", "a->b"])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return call


def _records(count: int) -> list[Seen]:
    return [Seen(b"k%d" % number, b"value" * 20, (), int(time.time() * 1000)) for number in range(count)]


def test_a_pair_of_clusters_with_kerberos_alone_is_replicated(
    kdc: LocalKdc,
    kafkas: dict[str, LocalKafka],
    keytabs: dict[str, Path],
    certificate: Path,
    written: Callable[..., Path],
    command: Callable[..., tuple[int, str]],
    tmp_path: Path,
    name: str,
) -> None:
    """Another principal, service name and kind of login on either side, one of them with TLS, in one process."""
    source, target = kafkas["source"], kafkas["target"]
    source.create_topic(name, partitions=2)
    for partition in (0, 1):
        produce(source, name, partition, _records(500))
    commit(source, f"{name}-group", TopicPartition(name, 0, 123))
    cache = kdc.ticket_cache("copier", keytabs["copier"], tmp_path / "cache")
    file = written(
        name,
        by_keytab("reader", keytabs["reader"]),
        by_ticket_cache(cache, "otherkafka", certificate.parent / "ca.pem"),
    )
    code, printed = command(file, "run")
    assert code == 0, printed
    time.sleep(REAUTHENTICATION_MS / 1000 + 1)
    produce(source, name, 1, _records(10))
    code, printed = command(file, "run")
    assert code == 0, printed
    seen = [
        {one: [record.seen for record in records] for one, records in read_all(kafka, topic).items()}
        for kafka, topic in ((source, name), (target, f"a.{name}"))
    ]
    assert seen[0] == seen[1]
    assert sum(map(len, seen[0].values())) == 1010
    for words in EVERYTHING:
        code, printed = command(file, *words.format(topic=name).split())
        assert code == 0, f"{words}: {printed}"
    offsets = target.admin().list_consumer_groups().result().valid
    assert f"{name}-group" in {offset.group_id for offset in offsets}


def test_the_documented_rights_are_enough_for_a_principal_of_kerberos(
    kafkas: dict[str, LocalKafka],
    kdc: LocalKdc,
    certificate: Path,
    written: Callable[..., Path],
    command: Callable[..., tuple[int, str]],
    tmp_path: Path,
    name: str,
) -> None:
    """The commands of docs/acls.md as they are, for their ``User:srm``, which is a super user nowhere."""
    for side, variable in (("source", "A"), ("target", "B")):
        for line in documented("acls.md", variable):
            create(kafkas[side], bindings_of(line))
    kafkas["source"].create_topic(name)
    produce(kafkas["source"], name, 0, _records(100))
    commit(kafkas["source"], f"{name}-group", TopicPartition(name, 0, 12))
    keytab = kdc.keytab("srm")
    cache = kdc.ticket_cache("srm", keytab, tmp_path / "cache")
    file = written(name, by_keytab("srm", keytab), by_ticket_cache(cache, "otherkafka", certificate.parent / "ca.pem"))
    # The lists of another test with this flow may have been edited.
    for words in (f"topics --add {name}", "run", *EVERYTHING):
        code, printed = command(file, *words.format(topic=name).split())
        assert code == 0, f"{words}: {printed}"
        assert "needs the permission" not in printed, f"{words}: {printed}"
    seen = [
        [record.seen for record in read_all(kafkas[side], topic)[0]]
        for side, topic in (("source", name), ("target", f"a.{name}"))
    ]
    assert len(seen[0]) == 100
    assert seen[0] == seen[1][: len(seen[0])]


def test_a_connection_outlives_the_login(
    kdc: LocalKdc, kafkas: dict[str, LocalKafka], keytabs: dict[str, Path], written: Callable[..., Path], name: str
) -> None:
    """The broker wants the login again over the same connection, and ends it otherwise."""
    kafkas["source"].create_topic(name)
    login = by_keytab("copier", keytabs["copier"])
    cluster = load_configuration(written(name, login, login)).flow("a->b").source
    with ClusterLink(cluster) as link:

        async def work() -> int:
            await link.open([name])
            leader = link.leader(name, 0)
            answers, end = 0, time.monotonic() + 3 * REAUTHENTICATION_MS / 1000
            first = await link.ready(leader)
            while time.monotonic() < end:
                found, faults = await link.offsets([Place(name, 0)], -1)
                assert not faults
                answers += len(found)
                await link.loop.sleep(0.3)
            assert await link.ready(leader) is first
            return answers

        assert link.run(work) > 10


def test_clients_that_are_idle_beyond_the_session_serve_on(
    kafkas: dict[str, LocalKafka], keytabs: dict[str, Path], written: Callable[..., Path], name: str
) -> None:
    """Nobody drives their connections meanwhile; the broker ends each one that sends a request before the login."""
    kafkas["source"].create_topic(name)
    login = by_keytab("copier", keytabs["copier"])
    cluster = load_configuration(written(name, login, login)).flow("a->b").source
    admin, writer = LinkAdmin(cluster), StateWriter(cluster)
    commit = ConsumerGroupTopicPartitions(f"{name}-group", [TopicPartition(name, 0, 7)])

    def committed() -> Any:
        places = admin.alter_consumer_group_offsets([commit])[commit.group_id].result().topic_partitions
        return [place.error for place in places or ()]

    def listed() -> Any:
        return admin.list_consumer_groups().result().errors

    def stored() -> int:
        return writer.write("write", [NewRecord(name, 0, b"k", b"v")])

    def ready() -> bool:
        try:
            return bool(committed() == [None])
        except KafkaException:  # the coordinator may be new
            return False

    while not ready():
        time.sleep(0.1)
    for ask, wanted in ((committed, [None]), (listed, []), (stored, 1), (stored, 1)):
        assert ask() == wanted
        time.sleep(REAUTHENTICATION_MS / 1000 + 1)
        assert ask() == wanted
    assert [record.value for record in StateReader(cluster).read(name)] == [b"v"] * 4


def test_what_is_wrong_is_one_sentence(
    kdc: LocalKdc,
    kafkas: dict[str, LocalKafka],
    keytabs: dict[str, Path],
    certificate: Path,
    written: Callable[..., Path],
    command: Callable[..., tuple[int, str]],
    tmp_path: Path,
    name: str,
) -> None:
    cache = kdc.ticket_cache("copier", keytabs["copier"], tmp_path / "cache")
    good = by_ticket_cache(cache, "otherkafka", certificate.parent / "ca.pem")
    kafkas["source"].create_topic(name)
    for wrong, sentence in (
        (by_keytab("copier", tmp_path / "nowhere"), f"the keytab {tmp_path}/nowhere cannot be read on this host"),
        (by_keytab("reader", keytabs["copier"]), "has no key for this principal"),
        (
            by_keytab("copier", keytabs["copier"]) | {"sasl.kerberos.service.name": "hdfs"},
            "check sasl.kerberos.service",
        ),
        (by_ticket_cache(tmp_path / "no-cache", "kafka"), "was filled here (kinit)"),
        (by_keytab("stranger", keytabs["stranger"]), "User:stranger needs the permission"),
    ):
        code, printed = command(written(name, wrong, good), "run")
        assert code != 0
        assert sentence in printed, printed
        assert "Traceback" not in printed


def test_tickets(kdc: LocalKdc, keytabs: dict[str, Path], tmp_path: Path) -> None:
    """A ticket cache is read each time; a keytab with new keys is, too; a KDC that is away is told from a refusal."""
    cache = tmp_path / "cache"
    tickets = KerberosTickets(KerberosLogin("service", None, None, str(cache)), "a")
    kdc.keytab(f"service/{HOST}")
    with pytest.raises(AccessDenied):
        tickets.ticket(HOST)
    kdc.ticket_cache("copier", keytabs["copier"], cache, lifetime="2s")
    assert tickets.ticket(HOST).token
    time.sleep(3)
    with pytest.raises(AccessDenied, match="expired"):
        tickets.ticket(HOST)
    kdc.ticket_cache("copier", keytabs["copier"], cache)
    assert tickets.ticket(HOST).token
    passing = kdc.keytab("passing")
    keyed = KerberosTickets(KerberosLogin("service", f"passing@{REALM}", str(passing)), "a")
    kdc.stop()
    try:
        with pytest.raises(UnreachableCluster, match=r"Cannot contact any KDC.*check krb5.conf and the KDC"):
            keyed.ticket(HOST)
    finally:
        kdc.start()
    assert keyed.ticket(HOST).token
    brief = kdc.keytab("brief", tickets="2s")
    keyed = KerberosTickets(KerberosLogin("service", f"brief@{REALM}", str(brief)), "a")
    for _ in range(2):
        assert keyed.ticket(HOST).token
        time.sleep(3)
        # Its ticket is known, and has ended.
        kdc.stop()
        try:
            for _ in range(2):
                with pytest.raises(UnreachableCluster, match=r"Cannot contact any KDC.*check krb5.conf and the KDC"):
                    keyed.ticket(HOST)
        finally:
            kdc.start()
    kdc.remove("brief")
    with pytest.raises(AccessDenied, match="not found in Kerberos database; check the principal and its keytab"):
        keyed.ticket(HOST)
    assert os.environ["KRB5CCNAME"].endswith("nothing-here")
