"""FindCoordinator: many keys in one request since Kafka 3.0 (KIP-699), one before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from srm_common.kafka.client.library import FindCoordinatorRequest

#: Values of ``key_type``.
GROUP, TRANSACTION = 0, 1
_ONE_KEY_VERSION, _MANY_KEYS_VERSION = 3, 4


def find_coordinator_request(keys: Sequence[str], key_type: int) -> Any:
    """For the coordinators of ``keys``. A broker that knows requests for one key only, as there are while a cluster is
    upgraded, answers for the first."""
    return FindCoordinatorRequest(
        min_version=_ONE_KEY_VERSION,
        max_version=_MANY_KEYS_VERSION,
        key=keys[0],
        key_type=key_type,
        coordinator_keys=list(keys),
    )


def found_coordinators(answer: Any, keys: Sequence[str]) -> Iterable[tuple[str, Any]]:
    """Those of ``keys`` that the answer is about, each with ``error_code`` and ``node_id``."""
    if answer.API_VERSION < _MANY_KEYS_VERSION:
        return [(keys[0], answer)]
    return [(one.key, one) for one in answer.coordinators]
