"""What follows a request to commit whose response was lost."""

from __future__ import annotations

import pytest

from srm_common.errors import AccessDenied
from srm_common.kafka.client.library import EndTxnRequest
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.transactions.producer import UncertainCommit
from tests.unit.kafka.transactions.producers import PLACE, began, target


@pytest.mark.parametrize("sent", [True, False])
def test_a_commit_is_uncertain_once_it_was_sent(sent: bool) -> None:
    """The transaction may be committed: whoever copied its records again without looking would double them."""
    with target() as (kafka, link):

        async def work() -> None:
            producer = await began(link)
            if sent:
                kafka.drop_answer("EndTxn")
            else:
                link.forget_coordinator("id")
            kafka.refuse("FindCoordinator", codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            with pytest.raises(
                UncertainCommit if sent else AccessDenied, match="does not allow the transactional id id"
            ):
                await producer.commit()

        link.run(work)
        assert kafka.transactions() == {"id": "CompleteCommit" if sent else "Ongoing"}


def test_the_transaction_after_a_repeated_commit_has_an_epoch_of_its_own() -> None:
    """The first request may still arrive. It would commit the next records without their offsets, which would be copied
    again."""
    with target() as (kafka, link):

        async def work() -> int:
            producer = await began(link)
            late = EndTxnRequest(
                version=3,
                transactional_id="id",
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                committed=True,
            )
            kafka.drop_answer("EndTxn")
            assert await producer.commit(), "it was repeated"
            await producer.add([PLACE])
            answer = await link.send(await link.coordinator("id"), late)
            return int(answer.error_code)

        assert link.run(work) in codes.FENCED
        assert kafka.transactions() == {"id": "Ongoing"}
