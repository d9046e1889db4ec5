"""Which brokers are refused, by the versions they offer.

The tables are what real brokers answer to ApiVersions, for the request types that the copy engine fixes: Produce,
Fetch, InitProducerId, AddPartitionsToTxn, EndTxn.
"""

from __future__ import annotations

import pytest

from srm_common.errors import UnsupportedBroker
from srm_common.kafka.client import library
from srm_common.kafka.client.protocol.broker_versions import ApiKey, refuse_old_brokers

BROKERS = {
    "2.8": {0: (0, 9), 1: (0, 12), 22: (0, 4), 24: (0, 3), 26: (0, 3)},
    "3.3": {0: (0, 9), 1: (0, 13), 22: (0, 4), 24: (0, 3), 26: (0, 3)},
    "3.9": {0: (0, 11), 1: (0, 17), 22: (0, 5), 24: (0, 5), 26: (0, 4)},
    "4.1": {0: (0, 13), 1: (4, 18), 22: (0, 5), 24: (0, 5), 26: (0, 5)},
}
OLD = {
    "2.7": {0: (0, 8), 1: (0, 12), 22: (0, 4), 24: (0, 2), 26: (0, 2)},
    "2.0": {0: (0, 6), 1: (0, 8), 22: (0, 1), 24: (0, 1), 26: (0, 1)},
    "0.10, without transactions": {0: (0, 2), 1: (0, 3)},
}


@pytest.mark.parametrize("version", BROKERS)
def test_supported_broker_is_accepted(version: str) -> None:
    refuse_old_brokers("east", BROKERS[version])


@pytest.mark.parametrize("version", OLD)
def test_older_broker_is_refused_in_one_sentence(version: str) -> None:
    with pytest.raises(
        UnsupportedBroker, match=r"^cluster east runs brokers older than Kafka 2\.8 \(.*\); upgrade them$"
    ):
        refuse_old_brokers("east", OLD[version])


def test_broker_that_dropped_our_versions_is_refused() -> None:
    future = BROKERS["4.1"] | {0: (13, 15)}
    with pytest.raises(UnsupportedBroker, match=r"newer than this software knows .*; upgrade this software"):
        refuse_old_brokers("east", future)


def test_request_types_have_kafkas_numbers() -> None:
    requests = {
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
    # Produce is written by hand (srm_common/wire/protocol/produce.py).
    assert numbers == {"PRODUCE": 0, **{name: request.API_KEY for name, request in requests.items()}}
