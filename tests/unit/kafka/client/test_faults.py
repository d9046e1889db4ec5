"""Each error of confluent-kafka becomes one of ours, and none slips through."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.principals import Right
from srm_common.errors import AccessDenied, ClusterError, SrmError, UnreachableCluster, UnsupportedBroker
from srm_common.kafka.client.faults import cluster_error, is_denied, kafka_error

CLUSTER = ClusterSettings("east", "h:1", {"sasl.password": "hush"}, {"sasl_plain_password": "hush"})
CODES = {name: getattr(KafkaError, name) for name in dir(KafkaError) if isinstance(getattr(KafkaError, name), int)}
CODES = {name: code for name, code in CODES.items() if name.strip("_").isupper() and name != "NO_ERROR"}

UNREACHABLE = {"_ALL_BROKERS_DOWN", "_DESTROY_BROKER", "_TRANSPORT", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_RESOLVE",
               "_MSG_TIMED_OUT", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "BROKER_NOT_AVAILABLE"}  # fmt: skip
DENIED = {"_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM", "ILLEGAL_SASL_STATE",
          "TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED",
          "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "DELEGATION_TOKEN_AUTHORIZATION_FAILED", "DELEGATION_TOKEN_EXPIRED",
          "DELEGATION_TOKEN_AUTH_DISABLED", "PRINCIPAL_DESERIALIZATION_FAILURE"}  # fmt: skip
UNSUPPORTED = {"_UNSUPPORTED_FEATURE", "UNSUPPORTED_VERSION"}


def expected(name: str) -> type[SrmError]:
    if name in UNREACHABLE:
        return UnreachableCluster
    if name in DENIED:
        return AccessDenied
    return UnsupportedBroker if name in UNSUPPORTED else ClusterError


@pytest.mark.parametrize("name", sorted(CODES))
def test_every_code(name: str) -> None:
    fault = KafkaError(CODES[name])
    for error in (fault, KafkaException(fault)):
        translated = cluster_error(CLUSTER, "list its topics", error)
        assert type(translated) is expected(name)
        text = str(translated)
        assert "'east' (h:1)" in text
        assert "list its topics" in text
        assert "hush" not in text
        assert "\n" not in text
        assert ("; User:ANONYMOUS lacks the permission for it" in text) == name.endswith("_AUTHORIZATION_FAILED")
    assert is_denied(fault) == (name in DENIED)


def test_the_right_is_named_where_the_cluster_misses_one_of_its_kind() -> None:
    needs = Right("Write", "transactional-id", "a->b")
    told = str(cluster_error(CLUSTER, "copy", KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), needs))
    assert told.endswith(
        "; User:ANONYMOUS needs the permission Write on transactional id 'a->b' (kafka-acls.sh --add "
        "--allow-principal User:ANONYMOUS --operation Write --transactional-id 'a->b')"
    )
    other = str(cluster_error(CLUSTER, "copy", KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), needs))
    assert other.endswith("; User:ANONYMOUS lacks the permission for it")


def test_the_library_has_all_the_codes_that_are_told_apart() -> None:
    assert set(CODES) >= UNREACHABLE | DENIED | UNSUPPORTED
    # A right or a login by another name, in a newer library, must be sorted in here.
    suspicious = {name for name in CODES if "AUTH" in name or "SASL" in name or "SSL" in name}
    assert suspicious == DENIED - {"DELEGATION_TOKEN_EXPIRED", "PRINCIPAL_DESERIALIZATION_FAILURE"}


def test_an_exception_without_a_code_is_still_ours() -> None:
    assert kafka_error(KafkaException("odd")) is None
    assert type(cluster_error(CLUSTER, "do it", KafkaException("odd"))) is ClusterError
