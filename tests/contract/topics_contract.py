"""Topics and their settings, as our adapters see them."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.topic_partition import TopicPartition as Place
from srm_common.domain.topics.actions import AlterConfigs, CreateTopic, GrowPartitions, SettingChange
from srm_common.domain.topics.topic_records import Ancestor, ClusterBinding, TopicRecord, TopicState
from srm_common.domain.topics.topic_settings import Source
from srm_common.errors import NoSuchPartition
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.kafka.client.faults import is_too_much, refuses_settings
from srm_common.kafka.client.links.link import EARLIEST, ClusterLink
from srm_common.kafka.log.topic_ids import topic_ids
from srm_common.kafka.state.flow_state import FlowState
from srm_common.kafka.state.state_topics import ensure_state_topics
from srm_common.kafka.state.topic_registry import TopicRegistry
from srm_common.testing.fake_cluster.configs import TOPIC_SETTINGS
from tests.contract.parts import Cluster, settings, shown
from tests.contract.requests import ask


def create(topic: str, partitions: int = 1, replicas: int = 1, **configs: str) -> CreateTopic:
    pairs = tuple((key.replace("_", "."), value) for key, value in configs.items())
    return CreateTopic("c", topic, partitions, replicas, pairs, "")


def alter(topic: str, changes: Mapping[str, str | None]) -> AlterConfigs:
    return AlterConfigs("c", topic, tuple(SettingChange(key, None, after, "") for key, after in changes.items()), "")


def codes_of(results: list[KafkaError | None]) -> list[int]:
    return [0 if result is None else result.code() for result in results]


def own_settings(admin: ClusterAdmin, topic: str) -> dict[str, str | None]:
    topic_settings = admin.topic_settings([topic]).get(topic, {})
    return {key: one.value for key, one in topic_settings.items() if one.source is Source.TOPIC}


class TopicsContract:
    """The fixture ``kafka`` is one node or more, ``name`` a name of the test's own."""

    def test_nodes_and_partitions_are_described(self, kafka: Cluster, name: str) -> None:
        """By the APIs of newer admin clients, which ours does without."""
        kafka.create_topic(name, 2)
        with ClusterLink(settings(kafka)) as link:
            link.run(link.open)
            node = kafka.nodes[0]
            cluster = ask(link, node, "DescribeCluster", 0)
            assert cluster.cluster_id == ClusterAdmin(settings(kafka)).cluster_id()
            assert sorted(broker.broker_id for broker in cluster.brokers) == sorted(kafka.nodes)
            assert (cluster.error_code, cluster.controller_id in kafka.nodes) == (0, True)

            def described(topic: str) -> tuple[int, list[tuple[int, int]]]:
                answer = ask(link, node, "DescribeTopicPartitions", 0, topics=[{"name": topic}])
                (found,) = answer.topics
                return found.error_code, [
                    (partition.partition_index, partition.error_code) for partition in found.partitions
                ]

            assert shown(lambda: described(name), (0, [(0, 0), (1, 0)])) == (0, [(0, 0), (1, 0)])
            assert described(f"{name}-none") == (KafkaError.UNKNOWN_TOPIC_OR_PART, [])

    def test_topics_are_listed_and_described(self, kafka: Cluster, name: str) -> None:
        admin = ClusterAdmin(settings(kafka))
        kafka.create_topic(f"{name}-a", 3)
        kafka.create_topic(f"{name}-b")
        topics = admin.topics()
        assert topics.brokers == kafka.nodes
        assert {topic: topics.partitions.get(topic) for topic in (f"{name}-a", f"{name}-b", f"{name}-c")} == {
            f"{name}-a": 3,
            f"{name}-b": 1,
            f"{name}-c": None,
        }
        assert topics.cluster_id == admin.cluster_id() != ""
        described = admin.describe_topics([f"{name}-a", f"{name}-b", f"{name}-c"])
        assert {topic: facts.partitions for topic, facts in described.items()} == {f"{name}-a": 3, f"{name}-b": 1}
        assert len({facts.topic_id for facts in described.values()}) == 2

    def test_ids_tell_a_topic_from_a_later_one_of_its_name(self, kafka: Cluster, name: str) -> None:
        kafka.create_topic(name)
        with ClusterLink(settings(kafka)) as link:

            def look() -> str | None:
                async def ask() -> dict[str, str | None]:
                    await link.open()
                    return await topic_ids(link, [name], 60)

                return link.run(ask)[name]

            first = look()
            assert first is not None
            assert len(first) == 22
            kafka.admin().delete_topics([name], operation_timeout=60)[name].result(60)
            assert shown(look, None) is None
            kafka.create_topic(name)
            assert look() not in (None, first)

    def test_what_is_too_much_for_one_request_is_not_taken_for_a_policy(self, kafka: Cluster, name: str) -> None:
        (fault,) = ClusterAdmin(settings(kafka)).create_topics([create(name, 10_001)])
        assert fault is not None
        assert (fault.code(), is_too_much(fault), refuses_settings(fault)) == (KafkaError.POLICY_VIOLATION, True, False)

    def test_topics_are_created_as_asked_and_refused_with_kafkas_codes(self, kafka: Cluster, name: str) -> None:
        admin = ClusterAdmin(settings(kafka))
        wanted = [
            create(f"{name}.a", 2, -1, retention_ms="1234567", cleanup_policy="compact"),
            create(f"{name}.b", 2, len(kafka.nodes) + 1),
            create("/" + name),
            create(f"{name}.c", 1, 1, retention_minutes="1"),
            create(f"{name}.d", 1, 1, cleanup_policy="burn"),
            create(f"{name}.e", 1, 1, retention_ms="-2"),
            create(f"{name}.f", 1, 1, segment_bytes="many"),
            create("x" * 250),
        ]
        expected = [
            0,
            KafkaError.INVALID_REPLICATION_FACTOR,
            KafkaError.TOPIC_EXCEPTION,
            *[KafkaError.INVALID_CONFIG] * 4,
            KafkaError.TOPIC_EXCEPTION,
        ]
        assert codes_of(admin.create_topics(wanted)) == expected
        assert admin.await_leaders({f"{name}.a": 2}, seconds=60) == set()
        assert codes_of(admin.create_topics([create(f"{name}.a", 2), create(f"{name}_a")])) == [
            KafkaError.TOPIC_ALREADY_EXISTS,
            KafkaError.TOPIC_EXCEPTION,
        ]
        mine = {topic for topic in admin.topics().partitions if topic.startswith(name)}
        assert mine == {f"{name}.a"}
        assert shown(lambda: own_settings(admin, f"{name}.a"), {"retention.ms": "1234567", "cleanup.policy": "compact"})

    def test_partitions_are_added_and_never_taken_away(self, kafka: Cluster, name: str) -> None:
        admin = ClusterAdmin(settings(kafka))
        kafka.create_topic(name, 2)
        grown = admin.grow_partitions(
            [GrowPartitions("c", name, 2, 5, ""), GrowPartitions("c", f"{name}-none", 1, 5, "")]
        )
        assert codes_of(grown) == [0, KafkaError.UNKNOWN_TOPIC_OR_PART]
        assert admin.await_leaders({name: 5}, seconds=60) == set()
        refused = admin.grow_partitions([GrowPartitions("c", name, 5, 5, "")])
        assert codes_of(refused) == [KafkaError.INVALID_PARTITIONS]
        refused = admin.grow_partitions([GrowPartitions("c", name, 5, 3, "")])
        assert codes_of(refused) == [KafkaError.INVALID_PARTITIONS]
        assert shown(lambda: admin.topics().partitions.get(name), 5) == 5

    def test_settings_without_a_value_of_their_own_are_kafkas_defaults(self, kafka: Cluster, name: str) -> None:
        admin = ClusterAdmin(settings(kafka))
        kafka.create_topic(name)
        shown(lambda: name in admin.topic_settings([name]), True)
        found = admin.topic_settings([name, f"{name}-none"])
        assert set(found) == {name}
        assert {key: (one.value, one.source) for key, one in found[name].items()} == {
            key: (one.default, Source.DEFAULT) for key, one in TOPIC_SETTINGS.items()
        } | {"min.insync.replicas": ("1", Source.DYNAMIC_BROKER)}

    def test_single_settings_are_told_alone(self, kafka: Cluster, name: str) -> None:
        admin = ClusterAdmin(settings(kafka))
        kafka.create_topic(name, config={"retention.ms": "1000"})
        keys = ("retention.ms", "cleanup.policy", "unheard.of")
        shown(lambda: name in admin.topic_settings([name]), True)
        described = admin.describe_settings([name, f"{name}-none"], keys)
        assert {topic: {key: one.value for key, one in found.items()} for topic, found in described.found.items()} == {
            name: {"retention.ms": "1000", "cleanup.policy": "delete"}
        }
        assert described.faults == {}

    def test_settings_are_set_and_removed_one_by_one(self, kafka: Cluster, name: str) -> None:
        admin = ClusterAdmin(settings(kafka))
        kafka.create_topic(name, config={"retention.ms": "1000", "cleanup.policy": "compact"})
        changed = admin.alter_configs([alter(name, {"retention.bytes": "77", "cleanup.policy": None})])
        assert codes_of(changed) == [0]
        wanted = {"retention.ms": "1000", "retention.bytes": "77"}
        assert shown(lambda: own_settings(admin, name), wanted) == wanted
        for changes in ({"retention.msec": "1"}, {"retention.ms": "soon"}, {"min.insync.replicas": "0"}):
            assert codes_of(admin.alter_configs([alter(name, changes)])) == [KafkaError.INVALID_CONFIG]
        missing = admin.alter_configs([alter(f"{name}-none", {"retention.ms": "1"})])
        assert codes_of(missing) == [KafkaError.UNKNOWN_TOPIC_OR_PART]
        assert own_settings(admin, name) == wanted

    def test_brokers_describe_themselves(self, kafka: Cluster) -> None:
        found = ClusterAdmin(settings(kafka)).broker_settings(kafka.nodes[0])
        assert (found["num.partitions"], found["log.cleanup.policy"]) == ("3", "delete")

    def test_offsets_are_told_and_missing_partitions_named(self, kafka: Cluster, name: str) -> None:
        admin = ClusterAdmin(settings(kafka))
        kafka.create_topic(name, 2)
        wanted = {Place(name, 0): 0, Place(name, 1): 0}
        assert shown(lambda: admin.offsets(wanted, EARLIEST), wanted) == wanted
        assert admin.offsets([], EARLIEST) == {}

    def test_a_link_knows_partitions_and_what_is_missing(self, kafka: Cluster, name: str) -> None:
        kafka.create_topic(name, 2)
        with ClusterLink(settings(kafka)) as link:

            async def look() -> dict[str, frozenset[int]]:
                await link.open()
                return await link.know([name, f"{name}-none"])

            assert link.run(look) == {name: frozenset({0, 1}), f"{name}-none": frozenset()}
            assert link.leader(name, 0) in kafka.nodes
            assert link.leader(name, 7) is None
            for topic, partition in ((name, 7), (f"{name}-none", 0)):
                assert isinstance(link.leaderless(topic, partition), NoSuchPartition)
            assert link.start_offsets([Place(name, 0)]) == ({Place(name, 0): 0}, {})
            found, faults = link.start_offsets([Place(name, 0), Place(f"{name}-none", 0)], timeout_seconds=0.5)
            assert found == {(name, 0): 0}
            assert set(faults) == {(f"{name}-none", 0)}

    def test_features_and_versions(self, kafka: Cluster) -> None:
        with ClusterLink(settings(kafka)) as link:
            link.run(link.open)
            assert link.run(lambda: link.finalized_feature("transaction.version")) == 2
            assert link.run(lambda: link.finalized_feature("nonsense")) == 0
            assert all(link.offers(api) for api in (2, 23, 32, 55, 61, 66))
            assert not link.offers(4711)

    def test_state_topics_are_made_once_and_mended(self, kafka: Cluster, name: str) -> None:
        alias = name.replace("-", "")
        cluster = settings(kafka, "target")
        flow = FlowSettings(
            FlowName(alias, "target"),
            settings(kafka, alias),
            cluster,
            enabled=True,
            replication_factor=-1,
            internal_replication_factor=-1,
            status_replication_factor=-1,
            config_replication_factor=-1,
            heartbeats_replication_factor=-1,
            checkpoints_replication_factor=-1,
            offset_syncs_replication_factor=-1,
        )
        made = ensure_state_topics(flow, patience_seconds=60)
        assert made.offsets_partitions == made.segments_partitions == 25
        assert any(f"mm2-offsets.{alias}.internal" in note for note in made.notes)
        assert shown(lambda: ensure_state_topics(flow).notes, ()) == ()
        admin = ClusterAdmin(cluster)
        assert codes_of(admin.alter_configs([alter(made.offsets_topic, {"cleanup.policy": "delete"})])) == [0]
        shown(lambda: own_settings(admin, made.offsets_topic).get("cleanup.policy"), "delete")
        mended = ensure_state_topics(flow)
        assert [note for note in mended.notes if "cleanup.policy=compact" in note]
        with FlowState(flow) as state:
            state.write("run", {"n": 1})
            state.write("gone", [1])
            state.write("gone", None)
            assert state.read_all() == {"run": {"n": 1}}

    def test_the_registry_keeps_records(self, kafka: Cluster, name: str) -> None:
        lineage = (Ancestor("id-a", "a", "t"),)
        one = TopicRecord(*(name, "t", "a.t", "u", "d", "id-a", "id-b", "identity"), TopicState.REPLICATING, 1, lineage)
        with TopicRegistry(settings(kafka)) as registry:
            registry.write([one], [ClusterBinding(name, "id-a", 7)], replication_factor=1)
            records = registry.read()
            assert records.of_flow(name) == {"t": one}
            assert records.bindings[name] == ClusterBinding(name, "id-a", 7)
            registry.write(forget=[one.key], forget_bindings=[name])
            records = registry.read()
            assert records.of_flow(name) == {}
            assert name not in records.bindings
