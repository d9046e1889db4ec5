"""What the target's brokers refuse by their own rules: a producer that keeps to the protocol hears few of these.

A chunk that a fault has struck may have batches behind the one that failed, which are out of sequence, or of an epoch
that is over. A slot that hears it again and again starts over without end, until it gives its partitions up.
"""

from __future__ import annotations

from typing import Any

from srm_common.testing import FakeCluster
from srm_common.testing.fake_cluster.messages import REFUSED_BY_TEST, Answer, Call
from tests.simulation.judge import Wrong

#: OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING
_CODES = frozenset({45, 47, 48, 49})
#: Batches that a single fault may leave behind: five requests with a few partitions each.
_OF_A_FAULT = 12


class Refusals:
    """Counts them, from when it is made."""

    def __init__(self, target: FakeCluster) -> None:
        handlers: Any = target._server._handlers
        produce = handlers["Produce"]
        self.count = 0

        def counted(call: Call) -> Answer | None:
            answer: Answer | None = produce(call)
            for topic in (answer or {"responses": []})["responses"]:
                for part in topic["partition_responses"]:
                    by_test = part.get("error_message") == REFUSED_BY_TEST
                    self.count += part["error_code"] in _CODES and not by_test
            return answer

        handlers["Produce"] = counted

    def check(self, faults: int) -> None:
        """Raises Wrong when there were more than the faults explain."""
        if self.count > _OF_A_FAULT * faults:
            raise Wrong(f"{self.count} batches were refused by sequence, epoch or state, after {faults} faults")
