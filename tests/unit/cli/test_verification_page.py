from __future__ import annotations

from html.parser import HTMLParser

from srm_common.cli.verification_page import verification_page
from srm_common.domain.offsets.fingerprints import Fingerprint
from srm_common.domain.verification.differences import Difference, DifferenceKind, Findings, NotProved
from srm_common.domain.verification.verification import (
    Against,
    Evidence,
    PartitionVerified,
    Verification,
    VerificationScope,
)

T = 1_700_000_000_000


class Cells(HTMLParser):
    """The texts of a page's cells, and which tags it has."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def verification(*partitions: PartitionVerified, faults: tuple[str, ...] = ()) -> Verification:
    evidence = Evidence("1.2.3", "abcdef", "source-id", "target-id", {"a.t": "topic-id"}, {"t": "source-topic-id"})
    return Verification("a->b", Against.MAP, VerificationScope(0.05, T), evidence, T, T + 1000, partitions, faults)


def test_it_has_what_proves_it() -> None:
    findings = Findings(proved=40, proved_from=5, proved_to=45, segments=3, not_proved={NotProved.RETENTION: 2})
    findings.fingerprint = Fingerprint(0xABC, 0x12)
    findings.add(Difference(DifferenceKind.LOST, 50, 59, 45, 54))
    page = Cells(verification_page(verification(PartitionVerified("t", 3, "a.t", findings, 4, 70, T))))
    wanted = [
        "a->b",
        "a sample of 5.00% of the segments",
        "source-id",
        "target-id",
        "1.2.3",
        "abcdef",
        "topic-id",
        "source-topic-id",
    ]
    wanted += ["2023-11-14 22:13:20 UTC", "1 different", "a.t", "3", "5", "45", "40", "4 to 70", "2 retention"]
    wanted.append("0000000000000abc00000012")
    wanted.append("offsets 50 to 59 (upstream offsets 45 to 54): committed records are missing")
    assert set(wanted) <= set(page.texts)


def test_no_name_or_sentence_becomes_markup() -> None:
    evil = "<script>alert(1)</script>"
    one = PartitionVerified("t", 0, evil, Findings(), fault=f"no {evil}")
    page = verification_page(verification(one, faults=(evil,)))
    assert "script" not in Cells(page).tags
    assert page.count("&lt;script&gt;") == 3
