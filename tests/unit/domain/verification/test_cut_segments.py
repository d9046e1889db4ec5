from __future__ import annotations

from dataclasses import replace

from srm_common.domain.offsets.offset_edits import LogRange
from srm_common.domain.offsets.segments import OffsetSpan, Segment
from srm_common.domain.verification.cut_segments import first_copied_again, own_end
from srm_common.domain.verification.differences import Findings, NotProved
from srm_common.domain.verification.source_comparison import Stretch, shared_stretches, stretches

DENSE = Segment("t", 0, 10, 20, 70, 80, (OffsetSpan(10, 10, 70, 10),))
#: Every other upstream offset is a record.
SPARSE = Segment("t", 0, 10, 20, 70, 75, (OffsetSpan(10, 10, 70, 5),))
BEHIND = Segment("t", 0, 20, 24, 76, 80, (OffsetSpan(20, 4, 76, 4),))


def test_where_the_copied_again_begins() -> None:
    assert [first_copied_again(replace(DENSE, upstream_end=end)) for end in (20, 14, 10)] == [80, 74, 70]
    assert [first_copied_again(replace(SPARSE, upstream_end=end)) for end in (20, 18, 12)] == [75, 73, 70]
    foreign = replace(DENSE, upstream_end=18, runs=(OffsetSpan(10, 10, 70, 10, foreign=True),))
    assert first_copied_again(foreign) == 70


def test_what_the_copy_still_has_of_a_segment() -> None:
    assert own_end(DENSE, 81) == 80
    assert own_end(DENSE, 76) == 76
    assert own_end(replace(DENSE, upstream_end=14), 76) == 74
    assert own_end(replace(SPARSE, upstream_end=14), 76) is None


def test_stretches_of_a_segment_that_the_log_was_cut_in() -> None:
    """Up to where the next one begins, whatever of its upstream offsets was not copied again."""
    source, copy = LogRange(10, 24), LogRange(70, 80)
    for upstream, left in ((20, 0), (18, 2)):
        cut = replace(DENSE, upstream_end=upstream)
        behind = replace(BEHIND, upstream_start=upstream)
        findings = Findings()
        whole = list(stretches([cut, behind], source, copy, 80, (False, None), findings))
        runs = list(shared_stretches([cut, behind], copy, 80, Findings()))
        assert whole == runs == [Stretch(10, upstream, 70, 76), Stretch(upstream, 24, 76, 80)]
        assert findings.not_proved == ({NotProved.COPIED_AGAIN: left} if left else {})
        for found in (
            stretches([cut], source, copy, 80, (False, None), Findings(), 76),
            shared_stretches([cut], copy, 80, Findings(), 76),
        ):
            assert list(found) == [Stretch(10, upstream, 70, 76)]
