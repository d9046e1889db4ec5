"""confluent-kafka's errors in our words, in one place."""

from __future__ import annotations

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.principals import Right, login_name
from srm_common.errors import AccessDenied, ClusterError, SrmError, UnreachableCluster, UnsupportedBroker
from srm_common.kafka.client.librdkafka import BROKER_LEFT, KafkaError, KafkaException

_UNREACHABLE = frozenset(
    {
        BROKER_LEFT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._RESOLVE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
    }
)
_DENIED = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        KafkaError.DELEGATION_TOKEN_EXPIRED,
        KafkaError.DELEGATION_TOKEN_AUTH_DISABLED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
        KafkaError.PRINCIPAL_DESERIALIZATION_FAILURE,
    }
)
#: The cluster is still learning of a new topic, or a leader has moved: the same request may succeed a moment later.
_TRANSIENT = frozenset(
    {
        BROKER_LEFT,
        # From ListOffsets, while none of the partitions has a leader.
        KafkaError._NOENT,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError._TRANSPORT,
    }
)
#: A cluster does not take settings of a topic: brokers have limits or a policy, and their hosts' answers differ.
_REFUSED_SETTINGS = frozenset({KafkaError.POLICY_VIOLATION, KafkaError.INVALID_CONFIG, KafkaError.INVALID_REQUEST})
_UNSUPPORTED = frozenset({KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION})


def is_too_much(fault: KafkaError) -> bool:
    """Whether a controller of KRaft refuses a request as a whole, since its changes do not fit into one batch of its
    log. The code is that of policies; "Unable to perform excessively large batch operation", or since 4.0 "Excessively
    large number of partitions per request"."""
    return fault.code() == KafkaError.POLICY_VIOLATION and "excessively large" in fault.str().lower()


def refuses_settings(fault: KafkaError) -> bool:
    """Whether the answer may be about a topic's settings, so that fewer of them may be taken."""
    return fault.code() in _REFUSED_SETTINGS and not is_too_much(fault)


def kafka_error(error: KafkaException | KafkaError) -> KafkaError | None:
    """The library's error value inside an exception; None when it carries none."""
    if isinstance(error, KafkaError):
        return error
    first = error.args[0] if error.args else None
    return first if isinstance(first, KafkaError) else None


def transient(error: KafkaException | KafkaError) -> bool:
    """Whether the same request may succeed a moment later."""
    found = kafka_error(error)
    return found is not None and found.code() in _TRANSIENT


def lacks_token(error: KafkaError) -> bool:
    """Whether librdkafka could not fetch a token for OAUTHBEARER; it does not distinguish an endpoint that refuses
    from one that does not respond."""
    return error.code() == KafkaError._AUTHENTICATION and "OAUTHBEARER token" in error.str()


def is_denied(error: KafkaError) -> bool:
    """True when a login or a right is missing."""
    return error.code() in _DENIED


def cluster_error(
    cluster: ClusterSettings, doing: str, error: KafkaException | KafkaError, needs: Right | None = None
) -> SrmError:
    """The error of our own tree for one of librdkafka's.

    Args:
        cluster: where it happened; alias and addresses are named, credentials never.
        doing: what was requested, to follow "could not", e.g. ``"list topics"``.
        needs: the right to name when the cluster denies access to a resource of its kind.
    """
    found = kafka_error(error)
    code = None if found is None else found.code()
    reason = str(error) if found is None else f"{found.str()} ({found.name()})"
    where = f"cluster '{cluster.alias}' ({cluster.bootstrap_servers})"
    if found is not None and lacks_token(found):
        return UnreachableCluster(
            f"{where} could not {doing} without a token: {reason}; check the token endpoint, the client's id and secret"
        )
    if code == KafkaError._SSL:
        return AccessDenied(
            f"{where} refused to {doing}: {reason}; check the certificates: ssl.truststore.location has to trust "
            "those of the brokers, the brokers have to trust that of ssl.keystore.location, and none may have expired"
        )
    if code in _UNREACHABLE:
        return UnreachableCluster(
            f"{where} did not respond to a request to {doing}: {reason}; check the addresses and the network"
        )
    if found is not None and found.name().endswith("_AUTHORIZATION_FAILED"):
        known = needs is not None and found.name().startswith(needs.kind.replace("-", "_").upper())
        missing = needs.missing(cluster) if needs and known else f"{login_name(cluster)} lacks the permission for it"
        return AccessDenied(f"{where} refused to {doing}: {reason}; {missing}")
    if code in _DENIED:
        return AccessDenied(f"{where} refused to {doing}: {reason}; check the login")
    if code in _UNSUPPORTED:
        return UnsupportedBroker(f"{where} is too old to {doing}: {reason}")
    return ClusterError(f"{where} could not {doing}: {reason}")
