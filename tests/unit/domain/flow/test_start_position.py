from __future__ import annotations

import pytest

from srm_common.domain.flow.start_position import StartKind, StartPosition, StartRules, TopicStart, parse_topic_starts
from srm_common.errors import ConfigError


@pytest.mark.parametrize("word", ["committed", "earliest", "latest"])
def test_words(word: str) -> None:
    assert StartPosition.parse(word) == StartPosition(StartKind(word))
    assert str(StartPosition.parse(word)) == word


@pytest.mark.parametrize(
    "text",
    [
        "timestamp:1700000000000",
        "timestamp:2023-11-14T22:13:20",
        "timestamp:2023-11-14T22:13:20Z",
        "timestamp:2023-11-15T00:13:20+02:00",
    ],
)
def test_times_are_utc_unless_they_say_otherwise(text: str) -> None:
    assert StartPosition.parse(text) == StartPosition(StartKind.TIMESTAMP, 1_700_000_000_000)


@pytest.mark.parametrize(
    "text",
    [
        *("", "begin", "earliest:3", "timestamp", "timestamp:", "timestamp:noon"),
        # Kafka's requests have 64 bits for a time, and other meanings for those before 1970: -1 is the end of the log.
        *(f"timestamp:{1 << 63}", "timestamp:" + "9" * 5000, "timestamp:1969-12-31T23:59:59.999"),
    ],
)
def test_anything_else_is_refused_with_the_choices(text: str) -> None:
    with pytest.raises(ConfigError, match="use committed, earliest, latest, timestamp"):
        StartPosition.parse(text)


def test_rules_are_read_in_their_order() -> None:
    written = "orders.*=latest, payments = timestamp:1970-01-01T00:00:01Z,audit=offsets:1=250; 0=100"
    assert parse_topic_starts(written) == (
        TopicStart("orders.*", StartPosition(StartKind.LATEST)),
        TopicStart("payments", StartPosition(StartKind.TIMESTAMP, 1000)),
        TopicStart("audit", StartPosition(StartKind.OFFSETS, offsets=((0, 100), (1, 250)))),
    )
    assert parse_topic_starts("x{1,3}=opposite, (?=a).*=earliest") == (
        TopicStart("x{1,3}", StartPosition(StartKind.OPPOSITE)),
        TopicStart("(?=a).*", StartPosition(StartKind.EARLIEST)),
    )
    assert parse_topic_starts("  ") == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("orders", "'orders' is not <topic expression>=<start position>"),
        ("=latest", "'=latest' is not <topic expression>=<start position>"),
        ("a=latest,", "'' is not <topic expression>=<start position>"),
        ("a=begin", "'begin' is not a start position; use earliest, latest, timestamp"),
        ("a=committed", "'committed' is not a start position"),
        ("a=latest:3", "'latest:3' is not a start position"),
        ("a=timestamp:noon", "'timestamp:noon' is not a start position"),
        ("a=offsets:0=100;1", "'1' in 'offsets:0=100;1' is not <partition>=<offset>"),
        ("a=offsets:0=-1", "'0=-1' in"),
        (f"a=offsets:0={1 << 63}", "is not <partition>=<offset>"),
        ("a=offsets:0=" + "9" * 5000, "is not <partition>=<offset>"),
        ("a=offsets:0=1;0=2", "names partition 0 twice"),
        ("a=offsets:", "'' in 'offsets:' is not"),
        ("[=latest", "has an expression that cannot be used"),
    ],
)
def test_what_is_wrong_is_said_with_the_rule(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_topic_starts(text)
    assert reason in str(caught.value)


def test_the_first_match_counts_and_the_rest_goes_by_the_reset_setting() -> None:
    rules = StartRules(parse_topic_starts("a.*=latest, ab=earliest"), "earliest")
    assert rules.of("ab") == (StartPosition(StartKind.LATEST), "start.positions: a.*=latest")
    assert rules.of("b") == (StartPosition(StartKind.EARLIEST), "auto.offset.reset=earliest")
    assert StartRules((), "latest").of("b")[0] == StartPosition(StartKind.LATEST)


def test_a_position_is_written_as_it_is_read() -> None:
    for text in ("offsets:0=100;1=250", "timestamp:5", "opposite"):
        assert str(StartPosition.parse(text, tuple(StartKind))) == text
