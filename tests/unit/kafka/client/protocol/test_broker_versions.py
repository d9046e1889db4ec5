"""Which brokers are refused, by the versions they offer.

The tables are what real brokers answer to ApiVersions, for the request types that the copy engine fixes: Produce,
Fetch, InitProducerId, AddPartitionsToTxn, EndTxn.
"""

from __future__ import annotations

import pytest

from srm_common.errors import UnsupportedBroker
from srm_common.kafka.client import library
from srm_common.kafka.client.protocol.broker_versions import ApiKey, refuse_old_brokers, version_fault

TARGETS = {
    "2.8": {0: (0, 9), 1: (0, 12), 3: (0, 11), 22: (0, 4), 24: (0, 3), 26: (0, 3)},
    "3.3": {0: (0, 9), 1: (0, 13), 3: (0, 12), 22: (0, 4), 24: (0, 3), 26: (0, 3)},
    "3.9": {0: (0, 11), 1: (0, 17), 3: (0, 12), 22: (0, 5), 24: (0, 5), 26: (0, 4)},
    "4.1": {0: (0, 13), 1: (4, 18), 3: (0, 13), 22: (0, 5), 24: (0, 5), 26: (0, 5)},
}
SOURCES = {
    "2.4": {0: (0, 8), 1: (0, 11), 3: (0, 9), 22: (0, 2), 24: (0, 1), 26: (0, 1)},
    "2.7": {0: (0, 8), 1: (0, 12), 3: (0, 9), 22: (0, 4), 24: (0, 2), 26: (0, 2)},
}
OLD = {
    "2.3": {0: (0, 7), 1: (0, 11), 3: (0, 8), 22: (0, 1), 24: (0, 1), 26: (0, 1)},
    "2.0": {0: (0, 6), 1: (0, 8), 3: (0, 6), 22: (0, 1), 24: (0, 1), 26: (0, 1)},
    "0.10, without transactions": {0: (0, 2), 1: (0, 3), 3: (0, 2)},
}


@pytest.mark.parametrize("version", TARGETS | SOURCES)
def test_what_may_be_read_from(version: str) -> None:
    refuse_old_brokers("east", (TARGETS | SOURCES)[version], only_read=True)


@pytest.mark.parametrize("version", TARGETS)
def test_what_may_be_written_to(version: str) -> None:
    refuse_old_brokers("west", TARGETS[version], only_read=False)


@pytest.mark.parametrize("version", OLD)
def test_an_older_source_is_refused_in_one_sentence(version: str) -> None:
    with pytest.raises(
        UnsupportedBroker,
        match=r"^cluster east cannot be used: a broker takes Metadata only up to version \d, and 9 is needed; a source "
        r"needs Kafka 2\.4 or later, upgrade it$",
    ):
        refuse_old_brokers("east", OLD[version], only_read=True)


@pytest.mark.parametrize("version", OLD | SOURCES)
def test_an_older_target_is_refused_in_one_sentence(version: str) -> None:
    with pytest.raises(
        UnsupportedBroker,
        match=r"^cluster west cannot be used: a broker takes .* only up to version \d+, and \d+ is needed; a target "
        r"needs Kafka 2\.8 or later, upgrade it$",
    ):
        refuse_old_brokers("west", (OLD | SOURCES)[version], only_read=False)


@pytest.mark.parametrize("only_read", [True, False])
def test_a_broker_that_dropped_our_versions_is_refused(only_read: bool) -> None:
    future = TARGETS["4.1"] | {1: (14, 19)}
    with pytest.raises(UnsupportedBroker, match="only from version 14 on, and this software knows 12; upgrade this"):
        refuse_old_brokers("east", future, only_read=only_read)


def test_a_request_that_a_broker_does_not_know() -> None:
    assert version_fault("ListTransactions", 66, 0, TARGETS["2.8"]) == "does not know ListTransactions"
    assert version_fault("Produce", ApiKey.PRODUCE, 9, TARGETS["2.8"]) == ""


def test_request_types_have_kafkas_numbers() -> None:
    requests = {
        "PRODUCE": library.ProduceRequest,
        "METADATA": library.MetadataRequest,
        "FETCH": library.FetchRequest,
        "LIST_GROUPS": library.ListGroupsRequest,
        "INIT_PRODUCER_ID": library.InitProducerIdRequest,
        "OFFSET_FOR_LEADER_EPOCH": library.OffsetForLeaderEpochRequest,
        "ADD_PARTITIONS_TO_TXN": library.AddPartitionsToTxnRequest,
        "END_TXN": library.EndTxnRequest,
        "DESCRIBE_ACLS": library.DescribeAclsRequest,
        "DESCRIBE_QUORUM": library.DescribeQuorumRequest,
    }
    numbers = {name: number for name, number in vars(ApiKey).items() if name.isupper()}
    assert numbers == {name: request.API_KEY for name, request in requests.items()}
