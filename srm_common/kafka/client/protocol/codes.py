"""Kafka's error codes, grouped by how a copy handles them. Names and flags are from kafka-python's table."""

from __future__ import annotations

from srm_common.kafka.client.library import Errors

UNKNOWN_SERVER_ERROR = -1
NONE = 0
OFFSET_OUT_OF_RANGE = 1
CORRUPT_MESSAGE = 2
UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10
NOT_COORDINATOR = 16
INVALID_TOPIC = 17
TOPIC_AUTHORIZATION_FAILED = 29
GROUP_AUTHORIZATION_FAILED = 30
CLUSTER_AUTHORIZATION_FAILED = 31
INVALID_TIMESTAMP = 32
UNSUPPORTED_VERSION = 35
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
DUPLICATE_SEQUENCE_NUMBER = 46
INVALID_PRODUCER_EPOCH = 47
INVALID_TXN_STATE = 48
INVALID_PRODUCER_ID_MAPPING = 49
INVALID_TRANSACTION_TIMEOUT = 50
CONCURRENT_TRANSACTIONS = 51
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
SECURITY_DISABLED = 54
OPERATION_NOT_ATTEMPTED = 55
UNKNOWN_PRODUCER_ID = 59
PRODUCER_FENCED = 90
UNKNOWN_TOPIC_ID = 100
INCONSISTENT_TOPIC_ID = 103
TRANSACTION_ABORTABLE = 120
#: Of a whole Metadata answer (KIP-1102).
REBOOTSTRAP_REQUIRED = 129

FENCED = frozenset({INVALID_PRODUCER_EPOCH, PRODUCER_FENCED})
#: Kafka's own clients send these again too; kafka-python's flags do not say so.
_ALSO_RETRIABLE = frozenset({CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION, CONCURRENT_TRANSACTIONS})
#: What EndTxn answers for a transaction that a newer owner, or its time-out, has ended.
ENDED_ELSEWHERE = FENCED | {INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING}
DENIED = frozenset({TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED})
#: The coordinator is moving or loading: ask again where it is, then repeat.
COORDINATOR_MOVES = frozenset({14, 15, 16})
#: The chunk has to be started over, under a new epoch; nothing is wrong with the partition itself.
REDO_CHUNK = frozenset(
    {
        OUT_OF_ORDER_SEQUENCE_NUMBER,
        DUPLICATE_SEQUENCE_NUMBER,
        INVALID_TXN_STATE,
        INVALID_PRODUCER_ID_MAPPING,
        UNKNOWN_PRODUCER_ID,
        TRANSACTION_ABORTABLE,
        OPERATION_NOT_ATTEMPTED,
    }
)


def name(code: int) -> str:
    """Kafka's name of a code, with its number."""
    kind = Errors.for_code(code)
    return f"{getattr(kind, 'message', None) or kind.__name__} ({code})"


def retriable(code: int) -> bool:
    """Whether the same request may succeed later, after a refresh of metadata."""
    if code in REDO_CHUNK or code in _ALSO_RETRIABLE:
        return True
    kind = Errors.for_code(code)
    return bool(getattr(kind, "retriable", False) or getattr(kind, "invalid_metadata", False))
