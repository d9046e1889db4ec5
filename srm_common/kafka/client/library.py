"""Everything that is used of kafka-python, under our names: this module alone imports it.

``tests/unit/kafka/client/test_library.py`` checks what is used of each class, private members too.
"""

from __future__ import annotations

import logging
from functools import cache
from types import ModuleType
from typing import Any

import kafka.errors as Errors
import kafka.protocol.admin as _admin_messages
import kafka.protocol.consumer as _consumer_messages
import kafka.protocol.metadata as _metadata_messages
import kafka.protocol.producer as _producer_messages
from kafka.cluster import ClusterMetadata, collect_hosts
from kafka.future import Future
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.sasl.scram import ScramClient
from kafka.net.selector import MAX_TIMEOUT, KernelEvent, NetworkSelector, Task, TaskState
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.admin import (
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ACLResourceType,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeProducersRequest,
    DescribeQuorumRequest,
    IncrementalAlterConfigsRequest,
    ListGroupsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest, ProduceRequest
from kafka.protocol.schemas.fields.codecs import EncodeBufferPool

__all__ = [
    "MAX_TIMEOUT",
    "ACLOperation",
    "ACLPermissionType",
    "ACLResourcePatternType",
    "ACLResourceType",
    "AbstractTokenProvider",
    "AddPartitionsToTxnRequest",
    "ApiMessage",
    "ApiVersionsRequest",
    "ClusterMetadata",
    "CreateAclsRequest",
    "CreatePartitionsRequest",
    "CreateTopicsRequest",
    "DeleteAclsRequest",
    "DescribeAclsRequest",
    "DescribeConfigsRequest",
    "DescribeGroupsRequest",
    "DescribeProducersRequest",
    "DescribeQuorumRequest",
    "EncodeBufferPool",
    "EndTxnRequest",
    "Errors",
    "FetchRequest",
    "FindCoordinatorRequest",
    "Future",
    "IncrementalAlterConfigsRequest",
    "InitProducerIdRequest",
    "KafkaConnection",
    "KafkaConnectionManager",
    "KafkaProtocol",
    "KafkaSSLTransport",
    "KafkaTCPTransport",
    "KernelEvent",
    "ListGroupsRequest",
    "ListOffsetsRequest",
    "ListTransactionsRequest",
    "MetadataRequest",
    "NetworkSelector",
    "OffsetCommitRequest",
    "OffsetFetchRequest",
    "OffsetForLeaderEpochRequest",
    "ProduceRequest",
    "SaslMechanismGSSAPI",
    "ScramClient",
    "Task",
    "TaskState",
    "collect_hosts",
    "messages",
    "quiet_library",
    "register_sasl_mechanism",
]


@cache
def messages() -> dict[str, tuple[Any, Any]]:
    """The request and the response class of every API that the library knows, by Kafka's name of it (``Fetch``).

    For the broker's side (:mod:`srm_common.testing.fake_cluster`).
    """
    modules: tuple[ModuleType, ...] = (_admin_messages, _consumer_messages, _metadata_messages, _producer_messages)
    classes = {name: getattr(module, name) for module in modules for name in module.__all__}
    return {
        name.removesuffix("Request"): (kind, classes[f"{name.removesuffix('Request')}Response"])
        for name, kind in classes.items()
        if name.endswith("Request")
    }


def quiet_library() -> None:
    """Silence kafka-python: its debug log prints passwords, and each lost connection comes with a trace.

    What matters comes back to the caller as an error.
    """
    library = logging.getLogger("kafka")
    # Each change makes every logger of the process forget the levels for which it is enabled.
    if library.level != logging.CRITICAL:
        library.setLevel(logging.CRITICAL)
