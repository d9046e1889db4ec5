"""Every error code of Kafka is one that is tried again, one that redoes the chunk, or final."""

from __future__ import annotations

import inspect
from typing import Any

import kafka.errors
import pytest

from srm_common.kafka.client.protocol import codes


def _broker_errors() -> list[Any]:
    classes: list[Any] = [kind for _, kind in inspect.getmembers(kafka.errors, inspect.isclass)]
    return [one for one in classes if issubclass(one, kafka.errors.BrokerResponseError) and isinstance(one.errno, int)]


#: Codes whose exception extends RetriableException in Kafka's clients (org.apache.kafka.common.protocol.Errors).
RETRIABLE_IN_KAFKA = {
    "CORRUPT_MESSAGE": 2,
    "UNKNOWN_TOPIC_OR_PARTITION": 3,
    "LEADER_NOT_AVAILABLE": 5,
    "NOT_LEADER_OR_FOLLOWER": 6,
    "REQUEST_TIMED_OUT": 7,
    "REPLICA_NOT_AVAILABLE": 9,
    "NETWORK_EXCEPTION": 13,
    "COORDINATOR_LOAD_IN_PROGRESS": 14,
    "COORDINATOR_NOT_AVAILABLE": 15,
    "NOT_COORDINATOR": 16,
    "NOT_ENOUGH_REPLICAS": 19,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": 20,
    "NOT_CONTROLLER": 41,
    "CONCURRENT_TRANSACTIONS": 51,
    "KAFKA_STORAGE_ERROR": 56,
    "FETCH_SESSION_ID_NOT_FOUND": 70,
    "INVALID_FETCH_SESSION_EPOCH": 71,
    "LISTENER_NOT_FOUND": 72,
    "FENCED_LEADER_EPOCH": 74,
    "UNKNOWN_LEADER_EPOCH": 75,
    "OFFSET_NOT_AVAILABLE": 78,
    "PREFERRED_LEADER_NOT_AVAILABLE": 80,
    "ELIGIBLE_LEADERS_NOT_AVAILABLE": 83,
    "ELECTION_NOT_NEEDED": 84,
    "UNSTABLE_OFFSET_COMMIT": 88,
    "THROTTLING_QUOTA_EXCEEDED": 89,
    "UNKNOWN_TOPIC_ID": 100,
    "INCONSISTENT_TOPIC_ID": 103,
    "FETCH_SESSION_TOPIC_ID_ERROR": 106,
    "SHARE_SESSION_NOT_FOUND": 122,
    "INVALID_SHARE_SESSION_EPOCH": 123,
}
ALL: list[int] = sorted({kind.errno for kind in _broker_errors()})


def test_the_librarys_table_is_complete_enough() -> None:
    assert set(range(1, 121)) <= set(ALL)


@pytest.mark.parametrize(("name", "code"), RETRIABLE_IN_KAFKA.items())
def test_what_kafkas_clients_retry_is_retried(name: str, code: int) -> None:
    assert codes.retriable(code)


@pytest.mark.parametrize("code", ALL)
def test_each_code_has_one_meaning(code: int) -> None:
    meanings = [code in group for group in (codes.FENCED, codes.DENIED, codes.REDO_CHUNK)]
    assert sum(meanings) <= 1
    final = code not in codes.REDO_CHUNK and code not in RETRIABLE_IN_KAFKA.values()
    assert codes.retriable(code) != final
    assert codes.name(code).endswith(f" ({code})")


@pytest.mark.parametrize("code", sorted(codes.FENCED | codes.DENIED | {codes.NONE, -1, 1, 10, 17, 32, 35, 42, 87}))
def test_what_no_repetition_mends_is_final(code: int) -> None:
    assert not codes.retriable(code)


@pytest.mark.parametrize("code", [14, 15, 16])
def test_a_coordinator_that_moves_is_asked_again(code: int) -> None:
    assert code in codes.COORDINATOR_MOVES
    assert codes.retriable(code)


@pytest.mark.parametrize("code", [45, 46, 48, 49, 55, 59, 120])
def test_faults_of_the_producer_redo_the_chunk(code: int) -> None:
    # Measured in docs/adr: each of them comes up when answers are lost, and none is the partition's fault.
    assert code in codes.REDO_CHUNK


def test_names_are_kafkas() -> None:
    assert codes.name(90) == "PRODUCER_FENCED (90)"
    assert codes.name(51) == "CONCURRENT_TRANSACTIONS (51)"
    assert "(12345)" in codes.name(12345)
