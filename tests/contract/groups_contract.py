"""Consumer groups, as our adapters see and set them; who owns a flow."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow.names import task_transactional_id
from srm_common.domain.offsets.checkpoints import Checkpoint
from srm_common.domain.topic_partition import TopicPartition as Place
from srm_common.errors import FlowOwnedElsewhere
from srm_common.kafka.client.library import FindCoordinatorRequest, messages
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.groups.group_commits import Committed, GroupCommitter
from srm_common.kafka.groups.group_offsets import CommittedOffset, Group, GroupOffsets, GroupReader
from srm_common.kafka.groups.group_watch import GroupWatch
from srm_common.kafka.transactions.active_writers import active_writers
from srm_common.replication.driver.ownership import Ownership
from tests.contract.parts import Cluster, settings, shown


def commit_as_java_does(kafka: Cluster, group: str, topic: str, note: str) -> None:
    """Offset 3 of the first partition; librdkafka would add a zero byte to the note."""
    request = messages()["OffsetCommit"][0]
    of_topic = request.OffsetCommitRequestTopic
    place = of_topic.OffsetCommitRequestPartition(partition_index=0, committed_offset=3, committed_metadata=note)
    with ClusterLink(settings(kafka)) as link:

        async def commit() -> int:
            await link.open()
            found = await link.ask_any(lambda: FindCoordinatorRequest(version=4, key_type=0, coordinator_keys=[group]))
            (coordinator,) = found.coordinators
            if coordinator.error_code:
                return int(coordinator.error_code)
            answer = await link.send(
                coordinator.node_id,
                request(version=8, group_id=group, topics=[of_topic(name=topic, partitions=[place])]),
            )
            return int(answer.topics[0].partitions[0].error_code)

        assert shown(lambda: link.run(commit), 0) == 0


class GroupsContract:
    def test_notes_are_read_as_they_were_written(self, kafka: Cluster, name: str) -> None:
        kafka.create_topic(name)
        notes = {f"{name}-{number}": f"notiz-ü{number}" + "x" * (number % 13) for number in range(40)}
        for group, note in notes.items():
            commit_as_java_does(kafka, group, name, note)
        offsets, faults = GroupReader(settings(kafka)).offsets(notes)
        assert faults == []
        assert {offset.group: offset.offsets[Place(name, 0)] for offset in offsets} == {
            group: CommittedOffset(3, note) for group, note in notes.items()
        }

    def test_offsets_are_committed_for_groups_without_members(self, kafka: Cluster, name: str) -> None:
        cluster = settings(kafka)
        kafka.create_topic(name, 3)
        wanted = [Checkpoint(name, name, 0, 1, 17, "note"), Checkpoint(name, name, 2, 1, 0)]
        assert GroupCommitter(cluster).commit_all({name: wanted}) == {name: Committed(2)}
        reader = GroupReader(cluster)
        groups, faults = reader.groups()
        assert [one for one in groups if one.name == name] == [Group(name, "empty", "classic")]
        assert faults == []
        offsets = [
            GroupOffsets(name, {Place(name, 0): CommittedOffset(17, "note"), Place(name, 2): CommittedOffset(0)}),
            GroupOffsets(f"{name}-none", {}),
        ]
        assert reader.offsets([f"{name}-none", name]) == (offsets, [])
        with GroupWatch(cluster) as watch:
            assert watch.committed(lambda group: group == name) == (offsets[:1], [])

    def test_offsets_of_a_topic_that_does_not_exist_are_refused(self, kafka: Cluster, name: str) -> None:
        kafka.create_topic(name)
        places = [TopicPartition(name, 0, 3), TopicPartition(f"{name}-none", 0, 3), TopicPartition(name, 7, 3)]
        request = [ConsumerGroupTopicPartitions(name, places)]

        def codes() -> list[int]:
            answer = kafka.admin().alter_consumer_group_offsets(request)[name].result(60)
            return [partition.error.code() if partition.error else 0 for partition in answer.topic_partitions or ()]

        unknown = KafkaError.UNKNOWN_TOPIC_OR_PART
        assert sorted(shown(codes, [0, unknown, unknown])) == [0, unknown, unknown]

    def test_a_group_with_members_is_left_alone(self, kafka: Cluster, name: str) -> None:
        cluster = settings(kafka)
        kafka.create_topic(name, 2)
        consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "group.id": name,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        try:
            consumer.subscribe([name])
            while len(consumer.assignment()) < 2:
                consumer.poll(0.1)
            consumer.commit(offsets=[TopicPartition(name, 1, 5)], asynchronous=False)
            reader = GroupReader(cluster)
            assert [group for group in reader.groups()[0] if group.name == name] == [Group(name, "stable", "classic")]
            asked = GroupCommitter(cluster).commit_all({name: [Checkpoint(name, name, 1, 1, 3)]})
            assert asked[name].forbidden == "in use"
            assert reader.offsets([name])[0] == [GroupOffsets(name, {Place(name, 1): CommittedOffset(5)})]
            with pytest.raises(KafkaException) as refused:
                kafka.admin().delete_consumer_groups([name])[name].result(60)
            assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
            described = kafka.admin().describe_consumer_groups([name])[name].result(60)
            (member,) = described.members
            assert {(partition.topic, partition.partition) for partition in member.assignment.topic_partitions} == {
                (name, 0),
                (name, 1),
            }
        finally:
            consumer.close()
        assert GroupCommitter(cluster).commit_all({name: [Checkpoint(name, name, 1, 1, 3)]}) == {name: Committed(1)}
        kafka.admin().delete_consumer_groups([name])[name].result(60)
        assert GroupReader(cluster).offsets([name])[0] == [GroupOffsets(name, {})]
        with pytest.raises(KafkaException) as refused:
            kafka.admin().delete_consumer_groups([name])[name].result(60)
        assert refused.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND

    def test_two_members_share_the_partitions(self, kafka: Cluster, name: str) -> None:
        kafka.create_topic(name, 2)
        base = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": name, "log_level": 0}
        consumers = [Consumer({**base, "heartbeat.interval.ms": 200}) for _ in range(2)]
        try:
            for consumer in consumers:
                consumer.subscribe([name])
            while [len(consumer.assignment()) for consumer in consumers] != [1, 1]:
                for consumer in consumers:
                    consumer.poll(0.05)
            consumers[1].close()
            while len(consumers[0].assignment()) != 2:
                consumers[0].poll(0.05)
        finally:
            consumers[0].close()

    def test_offsets_of_a_deleted_topic_are_gone(self, kafka: Cluster, name: str) -> None:
        cluster = settings(kafka)
        kafka.create_topic(name)
        assert GroupCommitter(cluster).commit_all({name: [Checkpoint(name, name, 0, 1, 3)]}) == {name: Committed(1)}
        kafka.admin().delete_topics([name], operation_timeout=60)[name].result(60)
        reader = GroupReader(cluster)
        assert shown(lambda: reader.offsets([name])[0], [GroupOffsets(name, {})]) == [GroupOffsets(name, {})]

    def test_a_flow_has_one_owner(self, kafka: Cluster, name: str) -> None:
        alias = name.replace("-", "")
        flow = FlowSettings(FlowName(alias, "target"), settings(kafka, alias), settings(kafka, "target"), enabled=True)
        flow = replace(flow, retry_timeout_seconds=60.0)
        first = Ownership.take(flow, 2, 3)
        assert [identity.transactional_id for identity in first.identities] == [
            task_transactional_id(flow.name, slot) for slot in range(2)
        ]
        assert len(first.all_identities) == 3
        before = first.identities
        first.refence()
        assert all(
            (after.producer_id, after.epoch) > (one.producer_id, one.epoch)
            for after, one in zip(first.identities, before, strict=True)
        )
        with Ownership.take(flow, 1, 1) as second:
            # Slots of the first are known to the coordinators, and fenced too.
            assert len(second.all_identities) == 3
            with pytest.raises(FlowOwnedElsewhere):
                first.refence()
            first.abandon()
        assert active_writers(flow) == []
