"""All that is used of kafka-python, and where it is today: this module alone imports it.

``tests/unit/kafka/client/test_library.py`` holds what is used of each class, private members too.
"""

from __future__ import annotations

import kafka.errors as Errors
from kafka.cluster import ClusterMetadata
from kafka.future import Future
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.selector import MAX_TIMEOUT, KernelEvent, NetworkSelector, Task, TaskState
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.admin import (
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ACLResourceType,
    DescribeAclsRequest,
    DescribeConfigsRequest,
    DescribeProducersRequest,
    DescribeQuorumRequest,
    ListGroupsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest
from kafka.structs import TopicPartition

__all__ = [
    "MAX_TIMEOUT",
    "ACLOperation",
    "ACLPermissionType",
    "ACLResourcePatternType",
    "ACLResourceType",
    "AbstractTokenProvider",
    "AddPartitionsToTxnRequest",
    "ApiVersionsRequest",
    "ClusterMetadata",
    "DescribeAclsRequest",
    "DescribeConfigsRequest",
    "DescribeProducersRequest",
    "DescribeQuorumRequest",
    "EndTxnRequest",
    "Errors",
    "FetchRequest",
    "FindCoordinatorRequest",
    "Future",
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
    "OffsetFetchRequest",
    "OffsetForLeaderEpochRequest",
    "Task",
    "TaskState",
    "TopicPartition",
]
