from __future__ import annotations

from srm_common.domain.verification.differences import Findings
from srm_common.domain.verification.summary import outcome_sentence
from srm_common.domain.verification.verification import PartitionVerified, Verdict


def test_a_sample_without_a_segment_does_not_say_that_nothing_was_copied() -> None:
    whole = PartitionVerified("t", 0, "a.t", Findings())
    sampled = PartitionVerified("t", 1, "a.t", Findings(), log_start=0, log_end=500, whole=False, sample=0.01)
    assert whole.verdict is sampled.verdict is Verdict.NOTHING
    assert outcome_sentence("a->b", [whole]) == "a->b: nothing was compared: the flow has copied nothing yet"
    assert outcome_sentence("a->b", [whole, sampled]) == (
        "a->b: nothing was compared: no copied segment is in the sample and as new as was asked for"
    )
