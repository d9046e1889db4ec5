from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.flow.service_advertisement import Advertisement
from srm_common.errors import CorruptRecord

GOOD: dict[str, Any] = {
    "name": "west",
    "protocol": "https",
    "host": "west.example",
    "port": 6670,
    "root_path": "/srm",
    "targets": ["west"],
    "every_ms": 30_000,
}


@pytest.mark.parametrize(
    ("url", "host", "port", "root_path", "written"),
    [
        ("http://west:6670", "west", 6670, "", "http://west:6670"),
        ("https://west.example/srm", "west.example", 443, "/srm", "https://west.example/srm"),
        ("http://[::1]:80/a/b", "::1", 80, "/a/b", "http://[::1]/a/b"),
        ("HTTPS://West:443", "west", 443, "", "https://west"),
    ],
)
def test_an_address_in_parts_and_together(url: str, host: str, port: int, root_path: str, written: str) -> None:
    advertisement = Advertisement.of("west", url, ["b", "a"], 1000)
    assert (advertisement.host, advertisement.port, advertisement.root_path, advertisement.targets) == (
        host,
        port,
        root_path,
        ("a", "b"),
    )
    assert advertisement.url == written
    assert Advertisement.from_json(advertisement.to_json(), 7) == replace(advertisement, seen_ms=7)


@pytest.mark.parametrize(
    ("every_ms", "age_ms", "stale"),
    [
        (1000, 300_000, False),  # five minutes, whatever the pace: clocks differ
        (1000, 300_001, True),
        (60_000, 600_000, False),  # ten renewals
        (60_000, 600_001, True),
        (10**12, 86_400_001, True),  # a day, whatever it says
        (1000, -3_600_000, False),  # its clock is ahead
    ],
)
def test_who_does_not_renew_is_gone(every_ms: int, age_ms: int, stale: bool) -> None:
    advertisement = Advertisement.from_json({**GOOD, "every_ms": every_ms}, 10**12)
    assert advertisement.stale(10**12 + age_ms) is stale


@pytest.mark.parametrize(
    "changed",
    [
        {"protocol": "ftp"},
        {"host": ""},
        {"host": "a b"},
        {"host": "west.example@elsewhere"},
        {"host": "elsewhere/?"},
        {"root_path": "/srm?to="},
        {"host": "a\r\nX: y"},
        {"host": "a" * 1001},
        {"port": 0},
        {"port": 65_536},
        {"port": True},
        {"port": "80"},
        {"root_path": "srm"},
        {"root_path": "/a\nb"},
        {"targets": "west"},
        {"targets": [1]},
        {"every_ms": 0.5},
        {"name": None},
    ],
)
def test_what_cannot_be_an_address_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(CorruptRecord):
        Advertisement.from_json({**GOOD, **changed}, 0)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner), max_leaves=5
)


@given(st.dictionaries(st.sampled_from(list(GOOD)), ANYTHING) | ANYTHING)
def test_anything_is_an_advertisement_or_refused(document: Any) -> None:
    if isinstance(document, dict):
        document = {**GOOD, **document}
    try:
        advertisement = Advertisement.from_json(document, 0)
    except CorruptRecord:
        return
    assert Advertisement.from_json(advertisement.to_json(), 0) == advertisement
