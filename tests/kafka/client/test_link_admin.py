"""The admin calls by kafka-python give what those by librdkafka give, on the same brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import ConfigResource, ConfigSource, OffsetSpec, ResourceType

from srm_common.domain.access.acl_bindings import AclBinding, Operation, Pattern, Permission, TopicPattern
from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.offsets.checkpoints import Checkpoint
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.actions import AlterConfigs, CreateTopic, GrowPartitions, SettingChange
from srm_common.errors import AccessDenied, ClusterError, UnreachableCluster
from srm_common.kafka.admin.acl_admin import AclAdmin
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.kafka.client.librdkafka import AdminClient
from srm_common.kafka.client.links.link import EARLIEST, LATEST
from srm_common.kafka.client.links.link_admin import LinkAdmin
from srm_common.kafka.client.links.shared_admin import SharedAdmin
from srm_common.kafka.groups.group_commits import Committed, GroupCommitter
from srm_common.kafka.groups.group_offsets import CommittedOffset, GroupReader
from srm_common.kafka.state.state_reader import StateReader
from srm_common.kafka.state.state_writer import StateWriter
from srm_common.testing import LocalKafka
from srm_common.testing.logins import client_properties
from srm_common.wire.state.plain_records import NewRecord
from tests.by_link import by_link
from tests.kafka.flows import write
from tests.kafka.group_commits import commit
from tests.kafka.records import eventually
from tests.silent_peers import peer

KINDS = ("librdkafka", "kafka-python")


def settings(kafka: LocalKafka, kind: str) -> ClusterSettings:
    """The cluster for either library."""
    plain = ClusterSettings.plaintext("a", kafka.bootstrap_servers)
    return plain if kind == "librdkafka" else by_link(plain)


@pytest.fixture(scope="module", params=[None, "2.8.2"], ids=["newest", "2.8.2"])
def broker(request: pytest.FixtureRequest) -> Iterator[LocalKafka]:
    """One of the newest version, which the session shares, and one of the oldest that is supported."""
    if request.param is None:
        yield request.getfixturevalue("source_kafka")
    else:
        with LocalKafka(name="old", version=request.param) as kafka:
            yield kafka


@pytest.fixture(params=KINDS)
def cluster(request: pytest.FixtureRequest, broker: LocalKafka) -> ClusterSettings:
    return settings(broker, request.param)


@pytest.fixture
def plain(broker: LocalKafka) -> ClusterSettings:
    return settings(broker, KINDS[0])


def test_the_client_of_changes_follows_from_the_login(broker: LocalKafka) -> None:
    kinds = [type(SharedAdmin(settings(broker, kind)).client) for kind in KINDS]
    assert kinds == [AdminClient, LinkAdmin]


def told(future: Future[Any], shown: Callable[[Any], Any]) -> Any:
    """What is shown of an answer, or the name of the error."""
    try:
        return shown(future.result())
    except KafkaException as error:
        return error.args[0].name()


def test_both_see_the_same_cluster(broker: LocalKafka, plain: ClusterSettings, name: str) -> None:
    broker.create_topic(name, partitions=3, config={"retention.ms": "1234567"})
    names = [name, f"{name}-missing"]
    seen: list[list[Any]] = []
    for admin in (broker.admin(), LinkAdmin(plain)):
        listed = admin.list_topics(timeout=30)
        one = admin.list_topics(name, timeout=30)
        described = admin.describe_topics(TopicCollection(names), request_timeout=30)
        node = str(min(listed.brokers))
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in names]
        configs = admin.describe_configs([*resources, ConfigResource(ResourceType.BROKER, node)], request_timeout=30)
        seen.append(
            [
                (listed.cluster_id, set(listed.brokers), sorted(set(one.topics) & set(names))),
                {number: part.leader for number, part in listed.topics[name].partitions.items()},
                str(admin.describe_cluster(request_timeout=30).result().cluster_id),
                {
                    topic: told(
                        future,
                        lambda found: (
                            str(found.topic_id),
                            [(part.id, part.leader is None, len(part.replicas)) for part in found.partitions],
                        ),
                    )
                    for topic, future in described.items()
                },
                {
                    (resource.restype.name, resource.name): told(
                        future,
                        lambda found: {
                            key: (
                                entry.value,
                                ConfigSource(entry.source),
                                bool(entry.is_read_only),
                                bool(entry.is_sensitive),
                            )
                            for key, entry in found.items()
                        },
                    )
                    for resource, future in configs.items()
                },
            ]
        )
    for of_librdkafka, of_links in zip(*seen, strict=True):
        assert of_librdkafka == of_links
    assert seen[1][3][f"{name}-missing"] == "UNKNOWN_TOPIC_OR_PART"
    assert seen[1][4]["TOPIC", name]["retention.ms"][0] == "1234567"
    assert seen[1][4]["TOPIC", f"{name}-missing"] == "UNKNOWN_TOPIC_OR_PART"


def test_offsets_are_those_that_librdkafka_lists(broker: LocalKafka, plain: ClusterSettings, name: str) -> None:
    broker.create_topic(name, partitions=3)
    write(broker, name, [b"v"] * 5, partition=1)
    _aborted(broker, name)
    specs = {EARLIEST: OffsetSpec.earliest(), LATEST: OffsetSpec.latest(), 1: OffsetSpec.for_timestamp(1)}  # type: ignore[no-untyped-call]
    links, admin = LinkAdmin(plain), ClusterAdmin(plain)
    places = [TopicPartition(name, number) for number in range(3)]
    for committed, isolation in ((True, IsolationLevel.READ_COMMITTED), (False, IsolationLevel.READ_UNCOMMITTED)):
        for at, spec in specs.items():
            wanted = {Place(*place): spec for place in places}
            futures = broker.admin().list_offsets(wanted, isolation_level=isolation, request_timeout=30)
            found = {
                TopicPartition(one.topic, one.partition): future.result().offset for one, future in futures.items()
            }
            assert links.list_offsets(dict.fromkeys(places, at), committed=committed) == found
            assert admin.offsets(places, at, committed=committed) == found
    # Each on its own: librdkafka fails all of them where one is missing.
    missing = TopicPartition(name, 7), TopicPartition(f"{name}-none", 0)
    answers = admin.offsets([places[1], *missing], LATEST)
    assert answers[places[1]] == 5
    for place in missing:
        assert isinstance(answers[place], ClusterError)
        assert f"could not list the offset of {place.topic}-{place.partition}" in str(answers[place])


def test_topics_are_changed(broker: LocalKafka, cluster: ClusterSettings, name: str) -> None:
    admin = ClusterAdmin(cluster)
    create = CreateTopic("a", name, 2, 1, (("cleanup.policy", "compact"),), "")
    assert admin.create_topics([create]) == [None]
    (again,) = admin.create_topics([create])
    assert again is not None
    assert again.name() == "TOPIC_ALREADY_EXISTS"
    assert not admin.await_leaders({name: 2}, seconds=60)
    assert admin.grow_partitions([GrowPartitions("a", name, 2, 4, "")]) == [None]
    (fewer,) = admin.grow_partitions([GrowPartitions("a", name, 4, 1, "")])
    assert fewer is not None
    assert fewer.name() == "INVALID_PARTITIONS"
    changes = (SettingChange("retention.ms", None, "77777", ""), SettingChange("cleanup.policy", "compact", None, ""))
    assert admin.alter_configs([AlterConfigs("a", name, changes, "")]) == [None]
    assert not admin.await_leaders({name: 4}, seconds=60)
    deadline = time.monotonic() + 60
    while not (
        (topic_settings := admin.topic_settings([name])[name])["retention.ms"].value == "77777"
        and topic_settings["cleanup.policy"].value == "delete"
    ):
        # The controller has taken it; a broker may not know yet.
        assert time.monotonic() < deadline, topic_settings
        time.sleep(0.1)
    wrong = AlterConfigs("a", name, (SettingChange("retention.ms", "77777", "never", ""),), "")
    (refused,) = admin.alter_configs([wrong])
    assert refused is not None
    # Brokers of 2.8 say it in another word.
    assert refused.name() in ("INVALID_CONFIG", "INVALID_REQUEST")


def test_groups_are_read_and_written(broker: LocalKafka, plain: ClusterSettings, name: str) -> None:
    broker.create_topic(name, partitions=2)
    group = f"{name}-read"
    commit(broker, group, Place(name, 0, 4, "a note"), Place(name, 1, 5))
    links = LinkAdmin(plain)
    listed: list[Any] = []
    read: list[Any] = []
    admins: list[Any] = [broker.admin(), links]
    for number, admin in enumerate(admins):
        found = admin.list_consumer_groups(request_timeout=30).result()
        assert not found.errors
        listed.append(
            [
                (one.group_id, one.state.name.lower(), one.type and one.type.name.lower())
                for one in found.valid
                if one.group_id == group
            ]
        )
        of_group = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=30)[group]
        read.append(
            sorted(
                (partition.topic, partition.partition, partition.offset)
                for partition in of_group.result().topic_partitions
            )
        )
        # Both write, and links read what was written.
        target = f"{name}-{number}"
        request = ConsumerGroupTopicPartitions(target, [Place(name, 1, 7, "noted"), Place(f"{name}-none", 0, 1)])
        answer = admin.alter_consumer_group_offsets([request], request_timeout=30)[target].result()
        errors = {partition.topic: partition.error and partition.error.name() for partition in answer.topic_partitions}
        assert errors == {name: None, f"{name}-none": "UNKNOWN_TOPIC_OR_PART"}
        (written,), faults = GroupReader(plain).offsets([target])
        assert not faults
        assert written.offsets == {TopicPartition(name, 1): CommittedOffset(7, "noted")}
    assert len(listed[0]) == 1
    assert [one[:2] for one in listed[0]] == [one[:2] for one in listed[1]]
    assert read[0] == read[1] == [(name, 0, 4), (name, 1, 5)]
    (none,), faults = GroupReader(plain).offsets([f"{name}-none"])
    assert (none.offsets, faults) == ({}, [])
    wanted = {f"{name}-c": [Checkpoint(f"{name}-c", name, 1, 9, 7, "noted")]}
    assert GroupCommitter(plain).commit_all(wanted) == {f"{name}-c": Committed(1)}


def test_state_is_written_and_read(broker: LocalKafka, plain: ClusterSettings, name: str) -> None:
    broker.create_topic(name, partitions=2, config={"cleanup.policy": "compact"})
    large = b"{" + b'"a": 1, ' * 300_000 + b"}"
    records = [
        NewRecord(name, 0, b"k", b"one", headers=((b"h", b"x"),)),
        NewRecord(name, 1, b"k", b"other"),
        NewRecord(name, 0, b"k", b"two", timestamp_ms=1_600_000_000_000),
        NewRecord(name, 0, b"gone", None, timestamp_ms=1_600_000_000_000),
        NewRecord(name, 0, b"large", large),
    ]
    writer = StateWriter(plain)
    assert writer.write("write", records) == 5
    assert writer.write("write", [NewRecord(name, 1, b"later", b"3")]) == 1
    with StateReader(plain) as reader:
        assert (reader.partitions(name), reader.partitions(f"{name}-missing")) == (2, 0)
        seen = reader.read(name)
        assert [(record.offset, record.key, record.value) for record in seen if record.partition == 0] == [
            (number, one.key, one.value)
            for number, one in enumerate(record for record in records if record.partition == 0)
        ]
        assert [record.timestamp_ms for record in seen if record.partition == 0][1:3] == [1_600_000_000_000] * 2
        assert [(record.key, record.value) for record in seen if record.partition == 1] == [
            (b"k", b"other"),
            (b"later", b"3"),
        ]
        middle = reader.read(name, {0: 1, 1: 1}, {0: 3, 1: 2})
        assert sorted((record.partition, record.offset) for record in middle) == [(0, 1), (0, 2), (1, 1)]
        assert reader.newest(name, {0: 4, 1: 2}).keys() == {b"k", b"gone", b"large", b"later"}
        # What was asked first was beyond the end when it was asked.
        assert reader.read(name, {0: 4}, {0: 4}) == []


def test_aborted_records_are_seen_by_who_asks_for_them(broker: LocalKafka, plain: ClusterSettings, name: str) -> None:
    broker.create_topic(name)
    _aborted(broker, name)
    with StateReader(plain) as committed, StateReader(plain, committed=False) as everything:
        ends = everything.offsets(name, [0], LATEST, committed=False)
        assert [record.value for record in committed.read(name)] == [b"2"]
        assert [record.value for record in everything.read(name, ends=ends)] == [b"1", b"2"]


def _aborted(kafka: LocalKafka, topic: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions()
    for value, end in ((b"1", producer.abort_transaction), (b"2", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, key=b"k", value=value, partition=0)
        producer.flush()
        end()


@pytest.fixture(scope="module", params=[None, "2.8.2"], ids=["newest", "2.8.2"])
def guarded(request: pytest.FixtureRequest) -> Iterator[LocalKafka]:
    of = {"jvm": request.getfixturevalue("broker_jvm")} if request.param is None else {"version": request.param}
    with LocalKafka(name="guarded", logins={"srm": "srm-pw"}, **of) as kafka:
        yield kafka


def _logged_in(kafka: LocalKafka, kind: str) -> ClusterSettings:
    from srm_common.domain.settings.layers import Entry
    from srm_common.settings_files.connections.client_keys import cluster_settings

    written = {"bootstrap.servers": kafka.bootstrap_servers, **client_properties("srm", "srm-pw")}
    entries = {key: Entry(key, value, "here", 1) for key, value in written.items()}
    plain = cluster_settings("a", entries, lambda entry: entry.value)
    return plain if kind == "librdkafka" else by_link(plain)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_rights_are_told_alike(guarded: LocalKafka, kind: str, name: str) -> None:
    guarded.create_topic(name)
    cluster = _logged_in(guarded, kind)
    with pytest.raises(AccessDenied, match=f"Describe on topic '{name}'"):
        ClusterAdmin(cluster).describe_topics([name])
    (refused,) = ClusterAdmin(cluster).create_topics([CreateTopic("a", f"{name}-new", 1, 1, (), "")])
    assert refused is not None
    assert refused.name() == "TOPIC_AUTHORIZATION_FAILED"
    _, (fault,) = GroupReader(cluster).offsets([f"{name}-group"])
    assert "needs the permission Describe on group" in str(fault)
    writer = StateWriter(cluster, timeout_seconds=20, repeats_matter=False)
    with pytest.raises(AccessDenied, match=f"needs the permission (Write|Describe) on topic '{name}'"):
        writer.write("write", [NewRecord(name, 0, b"k", b"v")])
    binding = AclBinding(TopicPattern(Pattern.LITERAL, name), "User:x", "*", Operation.READ, Permission.ALLOW)
    (told,) = AclAdmin(cluster).create([binding])
    assert isinstance(told, AccessDenied)
    assert "Alter on the cluster" in str(told)


def test_bindings_are_made_and_removed(guarded: LocalKafka, name: str) -> None:
    open_listener = ClusterSettings.plaintext("a", guarded.internal_servers)
    cluster = by_link(open_listener)
    admin = AclAdmin(cluster)
    binding = AclBinding(TopicPattern(Pattern.PREFIXED, name), "User:x", "*", Operation.READ, Permission.ALLOW)
    # The controller answers before the broker that is asked knows.
    assert admin.create([binding]) == [None]
    eventually(lambda: binding in (admin.topic_bindings() or ()), 30, "the binding is not there")
    assert admin.delete([binding]) == [None]
    eventually(lambda: binding not in (admin.topic_bindings() or ()), 30, "the binding is still there")


def test_a_silent_cluster_is_given_up(name: str) -> None:
    with peer() as address:
        cluster = by_link(ClusterSettings.plaintext("a", address))
        with pytest.raises(UnreachableCluster, match=r"cluster 'a' \(.*\) is not reachable"):
            ClusterAdmin(cluster, timeout_seconds=1).topics()
        with pytest.raises(UnreachableCluster):
            StateWriter(cluster, timeout_seconds=1).write("write", [NewRecord(name, 0, b"k", b"v")])
