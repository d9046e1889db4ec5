"""Which brokers are refused, by the versions they offer.

The tables are what real brokers answer to ApiVersions, for the request types that the copy engine fixes: Produce,
Fetch, InitProducerId, AddPartitionsToTxn, EndTxn.
"""

from __future__ import annotations

import pytest

from srm_common.errors import UnsupportedBroker
from srm_common.kafka.client import library
from srm_common.kafka.client.protocol.broker_versions import ApiKey, refuse_old_brokers, version_fault

BROKERS = {
    "2.4": {0: (0, 8), 1: (0, 11), 22: (0, 2), 24: (0, 1), 26: (0, 1)},
    "2.7": {0: (0, 8), 1: (0, 12), 22: (0, 4), 24: (0, 2), 26: (0, 2)},
    "2.8": {0: (0, 9), 1: (0, 12), 22: (0, 4), 24: (0, 3), 26: (0, 3)},
    "3.3": {0: (0, 9), 1: (0, 13), 22: (0, 4), 24: (0, 3), 26: (0, 3)},
    "3.9": {0: (0, 11), 1: (0, 17), 22: (0, 5), 24: (0, 5), 26: (0, 4)},
    "4.1": {0: (0, 13), 1: (4, 18), 22: (0, 5), 24: (0, 5), 26: (0, 5)},
}
OLD = {
    "2.0": {0: (0, 6), 1: (0, 8), 22: (0, 1), 24: (0, 1), 26: (0, 1)},
    "0.10, without transactions": {0: (0, 2), 1: (0, 3)},
}


@pytest.mark.parametrize("version", BROKERS)
def test_a_supported_source_is_accepted(version: str) -> None:
    refuse_old_brokers("east", BROKERS[version])


@pytest.mark.parametrize("version", OLD)
def test_an_older_one_is_refused_in_one_sentence(version: str) -> None:
    with pytest.raises(
        UnsupportedBroker,
        match=r"^cluster east cannot be used: its brokers take Fetch only up to version \d, and 11 is needed; Kafka "
        r"has had it since 2\.4: upgrade them$",
    ):
        refuse_old_brokers("east", OLD[version])


def test_a_broker_that_dropped_our_versions_is_refused() -> None:
    future = BROKERS["4.1"] | {1: (14, 19)}
    with pytest.raises(UnsupportedBroker, match="only from version 14 on, and this software knows 12; upgrade this"):
        refuse_old_brokers("east", future)


@pytest.mark.parametrize("version", ["2.8", "3.3", "3.9", "4.1"])
def test_a_supported_target_takes_what_is_sent_to_it(version: str) -> None:
    sent = {ApiKey.PRODUCE: 9, ApiKey.INIT_PRODUCER_ID: 4, ApiKey.ADD_PARTITIONS_TO_TXN: 3, ApiKey.END_TXN: 3}
    assert not any(version_fault(api, number, BROKERS[version]) for api, number in sent.items())


def test_an_older_target_is_told_what_it_lacks() -> None:
    fault = "its brokers take Produce only up to version 8, and 9 is needed; Kafka has had it since 2.8: upgrade them"
    assert version_fault(ApiKey.PRODUCE, 9, BROKERS["2.7"]) == fault
    without = version_fault(ApiKey.END_TXN, 3, OLD["0.10, without transactions"])
    assert without == "its brokers do not know EndTxn; Kafka has had it since 2.8: upgrade them"


def test_request_types_have_kafkas_numbers() -> None:
    requests = {
        "PRODUCE": library.ProduceRequest,
        "LIST_OFFSETS": library.ListOffsetsRequest,
        "FETCH": library.FetchRequest,
        "OFFSET_FETCH": library.OffsetFetchRequest,
        "FIND_COORDINATOR": library.FindCoordinatorRequest,
        "LIST_GROUPS": library.ListGroupsRequest,
        "INIT_PRODUCER_ID": library.InitProducerIdRequest,
        "OFFSET_FOR_LEADER_EPOCH": library.OffsetForLeaderEpochRequest,
        "ADD_PARTITIONS_TO_TXN": library.AddPartitionsToTxnRequest,
        "END_TXN": library.EndTxnRequest,
        "DESCRIBE_CONFIGS": library.DescribeConfigsRequest,
        "DESCRIBE_QUORUM": library.DescribeQuorumRequest,
        "DESCRIBE_PRODUCERS": library.DescribeProducersRequest,
        "LIST_TRANSACTIONS": library.ListTransactionsRequest,
    }
    numbers = {name: number for name, number in vars(ApiKey).items() if name.isupper()}
    assert numbers == {name: request.API_KEY for name, request in requests.items()}
