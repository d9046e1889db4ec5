"""Ids of topics: those that are not known say nothing."""

from __future__ import annotations

import base64
import uuid

import pytest

from srm_common.domain.offsets.segments import generation_of, is_another_generation
from srm_common.domain.topic_id import NO_TOPIC_ID, is_another_topic, known_topic_id


def test_zero_is_no_id() -> None:
    zero = base64.urlsafe_b64encode(uuid.UUID(int=0).bytes).decode().rstrip("=")
    assert known_topic_id(zero) == NO_TOPIC_ID
    assert known_topic_id("irgGn63QTt-PErYxSqdCSQ") == "irgGn63QTt-PErYxSqdCSQ"


@pytest.mark.parametrize(
    ("recorded", "found", "another"),
    [("a", "b", True), ("a", "a", False), ("a", "", False), ("", "b", False), ("a", None, False), (None, None, False)],
)
def test_only_two_known_ids_differ(recorded: str | None, found: str | None, another: bool) -> None:
    assert is_another_topic(recorded, found) is another
    assert is_another_generation(generation_of(recorded), generation_of(found)) is another
