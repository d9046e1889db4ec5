"""What all coordinators of a cluster say: each broker coordinates some of the transactional ids, and some groups."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from srm_common.errors import ClusterError, UnreachableCluster
from srm_common.kafka.client.library import ListTransactionsRequest
from srm_common.kafka.client.links.link import ClusterLink, RetriableFault
from srm_common.kafka.client.links.retriable_fault import OlderBroker
from srm_common.kafka.client.protocol import codes

_PAUSE_SECONDS = 0.1
_UNKNOWN_SERVER_ERROR = -1


async def transaction_states(link: ClusterLink, deadline: float, untold: str) -> dict[str, str]:
    """The states of the transactional ids that the principal may describe (KIP-664). Brokers before 3.0 list none, also
    where others of the cluster do. Raises as :func:`answers_of_all`."""
    answers = await answers_of_all(
        link,
        lambda: ListTransactionsRequest(version=0, state_filters=[], producer_id_filters=[]),
        deadline,
        untold,
        or_older=True,
    )
    return {state.transactional_id: state.transaction_state for one in answers for state in one.transaction_states}


async def answers_of_all(
    link: ClusterLink, make_request: Callable[[], Any], deadline: float, untold: str, *, or_older: bool = False
) -> list[Any]:
    """The answers of all brokers: one that does not answer may be the coordinator of what is asked for.

    One that has just stopped will soon leave the metadata, and one that is loading will soon be ready: they are asked
    again until ``deadline``, of the monotonic clock.

    Args:
        untold: a sentence about what is not known if one does not answer.
        or_older: whether brokers that are too old for the request are left out.

    Raises:
        UnreachableCluster: one has not answered in time, or with an error that stays.
        AccessDenied, ClusterError: as the cluster answers.
    """
    while True:
        answers = await link.ask_each(make_request)
        fault, final = "", False
        if or_older:
            known = len(answers)
            answers = {node: answer for node, answer in answers.items() if not isinstance(answer, OlderBroker)}
            # Where only brokers are left that have not answered, they are no newer than those that have.
            if len(answers) < known and all(isinstance(answer, RetriableFault) for answer in answers.values()):
                return []
        for node, answer in answers.items():
            if isinstance(answer, ClusterError):
                raise answer
            if isinstance(answer, RetriableFault):
                fault = str(answer)
            elif code := _fault(answer):
                fault = f"broker {node}: {codes.name(code)}"
                final = final or not (codes.retriable(code) or code == _UNKNOWN_SERVER_ERROR)
        if not fault:
            return list(answers.values())
        if final or time.monotonic() > deadline:
            raise UnreachableCluster(f"{untold}: {fault}")
        await link.loop.sleep(_PAUSE_SECONDS)
        await link.refresh()


def _fault(answer: Any) -> int:
    """The code of an answer. In DescribeGroups each group has one; that of a coordinator that is loading counts."""
    if hasattr(answer, "error_code"):
        return int(answer.error_code)
    told = {found.error_code for found in answer.groups}
    return next(iter(told & (codes.COORDINATOR_MOVES - {codes.NOT_COORDINATOR})), codes.NONE)
