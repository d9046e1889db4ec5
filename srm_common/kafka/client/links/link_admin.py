"""The part of librdkafka's admin client that is used here, over kafka-python.

It reads every cluster (docs/adr/0002), and changes those with Kerberos, which librdkafka is distributed without
(docs/adr/0020). The methods, their arguments and what they return are those of ``confluent_kafka.admin.AdminClient``,
except for offsets, and that single settings can be asked for; futures are done when they are returned. Tests compare
both clients on a broker.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import UUID

from srm_common.kafka.client.library import (
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    MetadataRequest,
)
from srm_common.kafka.client.librdkafka import (
    AclBinding,
    AclBindingFilter,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    KafkaError,
    NewPartitions,
    NewTopic,
    TopicCollection,
)
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.links.link_groups import LinkGroups, answered, done, error_of

_NOT_CONTROLLER = 41
#: The newest version of both requests about bindings that brokers of 2.8 know (KIP-482), and the fields of each.
_ACLS_VERSION = 2
_CREATION = (
    *("resource_type", "resource_name", "resource_pattern_type"),
    *("principal", "host", "operation", "permission_type"),
)
_FILTER = (
    *("resource_type_filter", "resource_name_filter", "pattern_type_filter"),
    *("principal_filter", "host_filter", "operation", "permission_type"),
)
B = TypeVar("B", AclBinding, AclBindingFilter)


@dataclass(frozen=True)
class _Topic:
    partitions: dict[int, Any]
    error: KafkaError | None


@dataclass(frozen=True)
class _Metadata:
    brokers: dict[int, Any]
    cluster_id: str | None
    controller_id: int
    topics: dict[str, _Topic]
    answers: list[Any] = field(default_factory=list, repr=False)


class LinkAdmin(LinkGroups):
    """Every method raises :class:`KafkaException` where no broker answers a request, and what
    :meth:`ClusterLink.open <srm_common.kafka.client.links.broker_link.BrokerLink.open>` raises.
    """

    # ---- the cluster and its topics

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> _Metadata:
        """Brokers, and all topics or one."""
        return self.ask(lambda link: _metadata(link, None if topic is None else [topic]), timeout)

    def describe_cluster(self, *, request_timeout: float = -1) -> Future[Any]:
        """Only ``cluster_id`` of the answer is used."""
        return done(self.ask(lambda link: _metadata(link, []), request_timeout))

    def describe_topics(self, topics: TopicCollection, *, request_timeout: float = -1) -> dict[str, Future[Any]]:
        """By name: ``topic_id``, and ``partitions`` with ``leader`` (None where there is none) and ``replicas``."""
        names: list[str] = topics.topic_names
        answer = self.ask(lambda link: _metadata(link, names), request_timeout)
        return {one.name: answered(one.error_code, None, lambda one=one: _description(one)) for one in answer.answers}  # type: ignore[misc]

    def create_topics(
        self,
        new_topics: Sequence[NewTopic],
        *,
        operation_timeout: float = 60.0,
        request_timeout: float = -1,
        validate_only: bool = False,
    ) -> dict[str, Future[None]]:
        """By name."""
        topic = CreateTopicsRequest.CreatableTopic

        def request() -> Any:
            return CreateTopicsRequest(
                max_version=5,
                topics=[
                    topic(
                        name=new_topic.topic,
                        num_partitions=new_topic.num_partitions,
                        replication_factor=new_topic.replication_factor,
                        assignments=[],
                        configs=[
                            topic.CreatableTopicConfig(name=key, value=value)
                            for key, value in (new_topic.config or {}).items()
                        ],
                    )
                    for new_topic in new_topics
                ],
                timeout_ms=int(operation_timeout * 1000),
                validate_only=validate_only,
            )

        answer = self._ask_controller(request, lambda answer: answer.topics, request_timeout)
        return {one.name: answered(one.error_code, one.error_message) for one in answer.topics}

    def create_partitions(
        self, new_partitions: Sequence[NewPartitions], *, operation_timeout: float = 60.0, request_timeout: float = -1
    ) -> dict[str, Future[None]]:
        """By topic, which then has ``new_total_count`` partitions."""
        kind = CreatePartitionsRequest

        def request() -> Any:
            return CreatePartitionsRequest(
                max_version=3,
                topics=[
                    kind.CreatePartitionsTopic(name=partition.topic, count=partition.new_total_count, assignments=None)
                    for partition in new_partitions
                ],
                timeout_ms=int(operation_timeout * 1000),
                validate_only=False,
            )

        answer = self._ask_controller(request, lambda answer: answer.results, request_timeout)
        return {result.name: answered(result.error_code, result.error_message) for result in answer.results}

    # ---- settings

    def describe_configs(
        self, resources: Sequence[ConfigResource], *, request_timeout: float = -1, keys: Sequence[str] | None = None
    ) -> dict[ConfigResource, Future[dict[str, ConfigEntry]]]:
        """By resource; a broker is asked about itself. ``keys``: these settings alone."""
        kind = DescribeConfigsRequest
        by_key = {(_number(resource.restype), resource.name): resource for resource in resources}
        nodes: dict[int | None, list[ConfigResource]] = defaultdict(list)
        for resource in resources:
            nodes[int(resource.name) if resource.restype.name == "BROKER" else None].append(resource)

        async def work(link: ClusterLink) -> list[Any]:
            found = []
            for node, ones in nodes.items():

                def request(ones: list[ConfigResource] = ones) -> Any:
                    return DescribeConfigsRequest(
                        max_version=4,
                        resources=[
                            kind.DescribeConfigsResource(
                                resource_type=_number(resource.restype),
                                resource_name=resource.name,
                                configuration_keys=None if keys is None else list(keys),
                            )
                            for resource in ones
                        ],
                        include_synonyms=False,
                        include_documentation=False,
                    )

                answer = await link.ask_any(request) if node is None else await link.send(node, request())
                found += answer.results
            return found

        return {
            by_key[one.resource_type, one.resource_name]: answered(
                one.error_code,
                one.error_message,
                lambda one=one: {entry.name: _entry(entry) for entry in one.configs},  # type: ignore[misc]
            )
            for one in self.ask(work, request_timeout)
        }

    def incremental_alter_configs(
        self, resources: Sequence[ConfigResource], *, request_timeout: float = -1
    ) -> dict[ConfigResource, Future[None]]:
        """By resource."""
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        by_key = {
            (_number(config_resource.restype), config_resource.name): config_resource for config_resource in resources
        }

        def change(entry: ConfigEntry) -> Any:
            operation = entry.incremental_operation or AlterConfigOpType.SET
            return resource.AlterableConfig(name=entry.name, config_operation=operation.value, value=entry.value)

        def request() -> Any:
            return IncrementalAlterConfigsRequest(
                max_version=1,
                resources=[
                    resource(
                        resource_type=_number(config_resource.restype),
                        resource_name=config_resource.name,
                        configs=[change(entry) for entry in config_resource.incremental_configs or ()],
                    )
                    for config_resource in resources
                ],
                validate_only=False,
            )

        answer = self._ask_controller(request, lambda answer: answer.responses, request_timeout)
        return {
            by_key[response.resource_type, response.resource_name]: answered(
                response.error_code, response.error_message
            )
            for response in answer.responses
        }

    # ---- bindings

    def create_acls(self, acls: Sequence[AclBinding], *, request_timeout: float = -1) -> dict[AclBinding, Future[None]]:
        """By binding."""
        kind = CreateAclsRequest

        def request() -> Any:
            bindings = [kind.AclCreation(**_fields(_CREATION, acl)) for acl in acls]
            return CreateAclsRequest(version=_ACLS_VERSION, creations=bindings)

        return self._change_bindings(acls, request, lambda answer: answer.results, request_timeout)

    def delete_acls(
        self, acl_binding_filters: Sequence[AclBindingFilter], *, request_timeout: float = -1
    ) -> dict[AclBindingFilter, Future[None]]:
        """By filter."""
        kind, ones = DeleteAclsRequest, acl_binding_filters

        def request() -> Any:
            filters = [kind.DeleteAclsFilter(**_fields(_FILTER, binding_filter)) for binding_filter in ones]
            return DeleteAclsRequest(version=_ACLS_VERSION, filters=filters)

        def results(answer: Any) -> Sequence[Any]:
            # A filter may be accepted although one of its bindings is not deleted.
            return [
                next((binding for binding in result.matching_acls if binding.error_code), result)
                for result in answer.filter_results
            ]

        return self._change_bindings(ones, request, results, request_timeout)

    # ---- inside

    def _change_bindings(
        self, ones: Sequence[B], request: Callable[[], Any], results: Callable[[Any], Sequence[Any]], seconds: float
    ) -> dict[B, Future[None]]:
        found = results(self._ask_controller(request, results, seconds))
        return {one: answered(told.error_code, told.error_message) for one, told in zip(ones, found, strict=True)}

    def _ask_controller(
        self, request: Callable[[], Any], results: Callable[[Any], Iterable[Any]], seconds: float
    ) -> Any:
        async def work(link: ClusterLink) -> Any:
            for _ in range(2):
                answer = await link.send((await _metadata(link, [])).controller_id, request())
                if all(result.error_code != _NOT_CONTROLLER for result in results(answer)):
                    break
            return answer

        return self.ask(work, seconds)


async def _metadata(link: ClusterLink, topics: list[str] | None) -> _Metadata:
    """``topics``: None for all of them."""
    kind = MetadataRequest

    def request() -> Any:
        wanted = None if topics is None else [kind.MetadataRequestTopic(name=name) for name in topics]
        return MetadataRequest(max_version=10, topics=wanted, allow_auto_topic_creation=False)

    answer = await link.ask_any(request)
    return _Metadata(
        {broker.node_id: broker for broker in answer.brokers},
        answer.cluster_id,
        answer.controller_id,
        {
            topic.name: _Topic(
                {
                    part.partition_index: SimpleNamespace(leader=part.leader_id, replicas=part.replica_nodes)
                    for part in topic.partitions
                },
                error_of(topic.error_code, None) if topic.error_code else None,
            )
            for topic in answer.topics
        },
        list(answer.topics),
    )


def _description(answer: Any) -> Any:
    return SimpleNamespace(
        name=answer.name,
        # As librdkafka writes it, with + and / where Kafka has - and _: ids are stored and compared.
        # None is zero.
        topic_id=base64.b64encode((answer.topic_id or UUID(int=0)).bytes).rstrip(b"=").decode(),
        partitions=[
            SimpleNamespace(
                id=partition.partition_index,
                leader=partition.leader_id if partition.leader_id >= 0 else None,
                replicas=list(partition.replica_nodes),
            )
            for partition in answer.partitions
        ],
    )


def _entry(answer: Any) -> ConfigEntry:
    try:
        source = ConfigSource(answer.config_source)
    except ValueError:  # one that came with a newer broker
        source = ConfigSource.UNKNOWN_CONFIG
    return ConfigEntry(answer.name, answer.value, source, answer.read_only, False, answer.is_sensitive)


def _fields(names: Sequence[str], one: AclBinding | AclBindingFilter) -> dict[str, Any]:
    """A binding, or a filter of bindings, as the fields of a request."""
    resource = (_number(one.restype), one.name, _number(one.resource_pattern_type))
    access = (one.principal, one.host, _number(one.operation), _number(one.permission_type))
    return dict(zip(names, resource + access, strict=True))


def _number(one: Any) -> int:
    """The number of a member of one of confluent-kafka's enumerations; some of its types say strings."""
    return int(one.value)
