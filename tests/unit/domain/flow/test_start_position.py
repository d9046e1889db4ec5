from __future__ import annotations

import pytest

from srm_common.domain.flow.start_position import StartKind, StartPosition
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


@pytest.mark.parametrize("text", ["", "begin", "earliest:3", "timestamp", "timestamp:", "timestamp:noon"])
def test_anything_else_is_refused_with_the_choices(text: str) -> None:
    with pytest.raises(ConfigError, match="use committed, earliest, latest, timestamp"):
        StartPosition.parse(text)
