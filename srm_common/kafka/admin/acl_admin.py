"""Access control bindings on topics of one cluster: describe all, create and delete some.

Bindings are described by kafka-python's protocol: confluent-kafka 2.16 returns an empty list if the broker has no
authorizer or denies access, and an empty list would revoke every binding of the copies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from srm_common.domain.access.acl_bindings import AclBinding, Operation, Pattern, Permission, TopicPattern
from srm_common.domain.cluster import Client, ClusterSettings
from srm_common.domain.flow.principals import Right
from srm_common.errors import AccessDenied, ClusterError, SrmError, UnreachableCluster, UnsupportedBroker
from srm_common.kafka.client.faults import cluster_error, kafka_error
from srm_common.kafka.client.library import (
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ACLResourceType,
    DescribeAclsRequest,
)
from srm_common.kafka.client.librdkafka import AclBinding as ConfluentBinding
from srm_common.kafka.client.librdkafka import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    KafkaError,
    KafkaException,
    ResourcePatternType,
    ResourceType,
)
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.kafka.client.links.shared_admin import SharedAdmin
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.client.protocol.broker_versions import ApiKey

B = TypeVar("B", bound=ConfluentBinding)

#: Bindings in one request; a KRaft controller writes the records of a request as one batch, 10,000 at most.
_BATCH = 500
_REACH_SECONDS = 20.0
_PAUSE_SECONDS = 0.1
_OPERATIONS = {ACLOperation[operation.value]: operation for operation in Operation}
_PATTERNS = {ACLResourcePatternType[pattern.value]: pattern for pattern in Pattern}
_PERMISSIONS = {ACLPermissionType[permission.value]: permission for permission in Permission}


class AclAdmin:
    """Access control bindings of one cluster. ``timeout_seconds`` limits each request; ``admin`` and ``pool`` are the
    cluster's client and connections where they are shared.

    Every method raises UnreachableCluster, AccessDenied (which names right and principal), UnsupportedBroker or
    ClusterError; those that change bindings return a result for each.
    """

    def __init__(
        self,
        cluster: ClusterSettings,
        *,
        timeout_seconds: float = 60.0,
        admin: SharedAdmin | None = None,
        pool: LinkPool | None = None,
    ) -> None:
        self.cluster = cluster
        self._timeout = timeout_seconds
        self._admin = admin or SharedAdmin(cluster)
        self._pool = pool

    def topic_bindings(self) -> frozenset[AclBinding] | None:
        """All bindings on topics; None where the brokers have no authorizer.

        Raises UnsupportedBroker where the server keeps no ACLs for clients at all, as some that speak Kafka's protocol.
        """
        with ClusterLink(
            self.cluster.of_client(Client.ADMIN),
            part="acls",
            request_timeout_ms=round(self._timeout * 1000),
            pool=self._pool,
        ) as link:
            answer = link.run(lambda: self._described(link))
        if answer.error_code == codes.SECURITY_DISABLED:
            return None
        if answer.error_code == codes.CLUSTER_AUTHORIZATION_FAILED:
            raise self._denied("describe its ACLs", "Describe")
        if answer.error_code == codes.UNSUPPORTED_VERSION:
            raise self._without_acls
        if answer.error_code:
            message = f", {answer.error_message}" if answer.error_message else ""
            raise ClusterError(f"{self._place} could not describe its ACLs: {codes.name(answer.error_code)}{message}")
        return frozenset(
            AclBinding(
                TopicPattern(_PATTERNS[resource.pattern_type], resource.resource_name),
                acl.principal,
                acl.host,
                _OPERATIONS.get(acl.operation, Operation.UNKNOWN),
                _PERMISSIONS[acl.permission_type],
            )
            for resource in answer.resources
            for acl in resource.acls
            # Kinds that this version does not know are left out.
            if resource.pattern_type in _PATTERNS and acl.permission_type in _PERMISSIONS
        )

    async def _described(self, link: ClusterLink) -> Any:
        await link.open(timeout_seconds=min(self._timeout, _REACH_SECONDS))
        if not link.offers(ApiKey.DESCRIBE_ACLS):
            raise self._without_acls

        def request() -> Any:
            return DescribeAclsRequest(
                resource_type_filter=ACLResourceType.TOPIC,
                resource_name_filter=None,
                pattern_type_filter=ACLResourcePatternType.ANY,
                principal_filter=None,
                host_filter=None,
                operation=ACLOperation.ANY,
                permission_type=ACLPermissionType.ANY,
            )

        deadline = time.monotonic() + min(self._timeout, _REACH_SECONDS)
        while True:
            fault = ""
            try:
                answer = await link.ask_any(request)
                if not codes.retriable(answer.error_code):
                    return answer
                fault = codes.name(answer.error_code)
            except RetriableFault as error:
                fault = str(error)
            if time.monotonic() > deadline:
                raise UnreachableCluster(f"{self._place} did not describe its ACLs: {fault}")
            await link.loop.sleep(_PAUSE_SECONDS)

    def create(self, bindings: Sequence[AclBinding]) -> list[SrmError | None]:
        """One result per binding, None when it is there."""
        asked = [_confluent(binding, ConfluentBinding) for binding in bindings]
        return self._each("create ACLs", asked, self._client().create_acls)

    def delete(self, bindings: Sequence[AclBinding]) -> list[SrmError | None]:
        """One result per binding, None when it is gone. No other binding is deleted, however similar."""
        asked = [_confluent(binding, AclBindingFilter) for binding in bindings]
        return self._each("delete ACLs", asked, self._client().delete_acls)

    def _each(self, doing: str, asked: list[B], send: Callable[..., Mapping[B, Future[Any]]]) -> list[SrmError | None]:
        results: list[SrmError | None] = []
        for start in range(0, len(asked), _BATCH):
            batch = asked[start : start + _BATCH]
            try:
                futures = send(batch, request_timeout=self._timeout)
            except KafkaException as error:
                raise self._error(doing, error) from error
            for one in batch:
                try:
                    futures[one].result()
                    results.append(None)
                except KafkaException as error:
                    results.append(self._error(doing, error))
        return results

    def _client(self) -> AdminClient:
        return self._admin.client

    @property
    def _place(self) -> str:
        return f"cluster '{self.cluster.alias}' ({self.cluster.bootstrap_servers})"

    @property
    def _without_acls(self) -> UnsupportedBroker:
        return UnsupportedBroker(f"{self._place} has no API for ACLs (DescribeAcls)")

    def _denied(self, doing: str, right: str) -> AccessDenied:
        return AccessDenied(f"{self._place} refused to {doing}: {Right(right, 'cluster').missing(self.cluster)}")

    def _error(self, doing: str, error: KafkaException) -> SrmError:
        fault = kafka_error(error)
        if fault is not None and fault.code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            return self._denied(doing, "Alter")
        return cluster_error(self.cluster, doing, self._admin.explained(error))


def _confluent(binding: AclBinding, kind: type[B]) -> B:
    """Our binding as one of the library's, or as a filter that matches only this one."""
    return kind(
        ResourceType.TOPIC,
        binding.topics.name,
        ResourcePatternType[binding.topics.pattern.value],
        binding.principal,
        binding.host,
        AclOperation[binding.operation.value],
        AclPermissionType[binding.permission.value],
    )
