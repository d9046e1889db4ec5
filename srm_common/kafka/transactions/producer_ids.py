"""Producer ids and epochs from the transaction coordinator (KIP-98, KIP-360)."""

from __future__ import annotations

import time
from typing import Any

from srm_common.domain.flow.principals import Right
from srm_common.errors import AccessDenied, ClusterError, ConfigError, Fenced, UnreachableCluster
from srm_common.kafka.client.library import InitProducerIdRequest
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.protocol import codes

_VERSION = 4
#: Pauses for a coordinator that is busy with markers, the first and the longest, and for one that moves.
_CONCURRENT_PAUSE_SECONDS, _LONGEST_CONCURRENT_PAUSE_SECONDS, _MOVED_PAUSE_SECONDS = 0.009, 0.1, 0.05


class FencedAfterRepeat(Fenced):
    """Refused, but the same request was sent before, and may have been carried out.

    A coordinator recognises the repetition of a bump, but its successor after a move does not: the previous epoch is
    not in its log. So this may be the caller's own bump, whose answer was lost.
    """


async def init_producer(
    link: ClusterLink,
    transactional_id: str | None,
    *,
    transaction_timeout_ms: int,
    producer_id: int = -1,
    epoch: int = -1,
    deadline: float,
) -> tuple[int, int]:
    """InitProducerId until it is answered: (producer id, epoch).

    Without ``producer_id`` and ``epoch`` this takes ownership: an open transaction is aborted, older owners are
    refused from then on. With them it is the bump of KIP-360.

    Raises:
        Fenced: a newer owner exists; FencedAfterRepeat when it may be the caller itself.
        AccessDenied, ConfigError: a missing right; a transaction timeout above the broker's maximum.
        UnreachableCluster: no answer before ``deadline`` (monotonic seconds); the request is sent at least once.
    """

    # Any version does for a producer without transactions.
    versions = {"max_version": _VERSION} if transactional_id is None else {"version": _VERSION}

    def request() -> Any:
        return InitProducerIdRequest(
            **versions,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )

    fault = ""
    repeated = False
    pause = _CONCURRENT_PAUSE_SECONDS
    while not fault or time.monotonic() < deadline:
        try:
            if transactional_id is None:
                # An id that is handed out twice costs nothing.
                answer = await link.ask_any(request)
            else:
                answer = await link.send(await link.coordinator(transactional_id), request())
        except RetriableFault as error:
            fault = str(error)
            repeated = True
            if transactional_id is not None:
                link.forget_coordinator(transactional_id)
            await link.loop.sleep(_MOVED_PAUSE_SECONDS)
            await link.refresh()
            continue
        code = answer.error_code
        if code == codes.NONE:
            return int(answer.producer_id), int(answer.producer_epoch)
        fault = codes.name(code)
        if code in codes.FENCED:
            kind = FencedAfterRepeat if repeated else Fenced
            raise kind(f"the producer {transactional_id} was fenced by a newer owner: {fault}")
        if code in codes.DENIED:
            needs = (
                Right("IdempotentWrite", "cluster")
                if transactional_id is None
                else Right("Write", "transactional-id", transactional_id)
            )
            what = "an idempotent producer" if transactional_id is None else f"the transactional id {transactional_id}"
            raise AccessDenied(f"cluster {link.alias} does not allow {what}: {fault}; {needs.missing(link.settings)}")
        if code == codes.INVALID_TRANSACTION_TIMEOUT:
            raise ConfigError(
                f"transaction.timeout.ms = {transaction_timeout_ms} is above transaction.max.timeout.ms "
                f"of cluster {link.alias}; lower it"
            )
        if code == codes.CONCURRENT_TRANSACTIONS:
            await link.loop.sleep(pause)
            pause = min(2 * pause, _LONGEST_CONCURRENT_PAUSE_SECONDS)
        elif code in codes.COORDINATOR_MOVES or codes.retriable(code):
            repeated = True
            if transactional_id is not None:
                link.forget_coordinator(transactional_id)
            await link.loop.sleep(_MOVED_PAUSE_SECONDS)
        else:
            raise ClusterError(f"cluster {link.alias} refuses InitProducerId for {transactional_id}: {fault}")
    raise UnreachableCluster(f"cluster {link.alias} returned no producer id for {transactional_id} in time: {fault}")
