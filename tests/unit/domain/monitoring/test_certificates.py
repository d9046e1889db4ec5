"""What is known of certificates after looks that may miss brokers or whole clusters."""

from __future__ import annotations

import pytest

from srm_common.domain.monitoring.certificates import CertificateEnd, due, first_end_ms, later_seen

EARLY, LATE = CertificateEnd("a", 5_000, "early"), CertificateEnd("a", 9_000, "late")
PART = CertificateEnd("a", 9_000, "late", complete=False)
OTHER, OPEN = CertificateEnd("b", 7_000, "other"), CertificateEnd("b")


@pytest.mark.parametrize(
    ("before", "seen", "known"),
    [
        ((), (EARLY, OPEN), (EARLY, OPEN)),
        ((EARLY, OTHER), (), (EARLY, OTHER)),  # no cluster could be asked
        ((EARLY, OTHER), (LATE,), (LATE, OTHER)),  # renewed
        ((EARLY,), (PART,), (EARLY,)),  # the broker that has it may be the one that is missing
        ((LATE,), (CertificateEnd("a", 6_000, "new", complete=False),), (CertificateEnd("a", 6_000, "new", False),)),
        ((OTHER,), (OPEN,), (OPEN,)),  # TLS was switched off
        ((OPEN,), (OTHER,), (OTHER,)),
    ],
)
def test_what_is_known_after_a_look(
    before: tuple[CertificateEnd, ...], seen: tuple[CertificateEnd, ...], known: tuple[CertificateEnd, ...]
) -> None:
    assert later_seen(before, seen) == known


def test_those_that_are_due_come_by_their_end() -> None:
    day = 86_400_000
    assert due((LATE, OTHER, OPEN), 0, 0) == []
    assert due((LATE, OTHER, OPEN), 0, 1) == [OTHER, LATE]
    assert due((LATE, OTHER), 9_000 - day, 1) == [OTHER, LATE]
    assert due((LATE, OTHER), 8_999 - day, 1) == [OTHER]
    assert first_end_ms((LATE, OTHER, OPEN)) == 7_000
    assert first_end_ms((OPEN,)) is None
