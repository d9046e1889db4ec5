"""The one codec of the compacted topics with JSON records."""

from __future__ import annotations

import re
from typing import Any

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.errors import CorruptRecord
from srm_common.kafka.state.flow_state import FlowState, flow_value
from srm_common.kafka.state.keyed_topic import KeyedTopic, decode, encode, encode_key, place_of
from srm_common.testing import FakeCluster
from tests.kafka.records import delete_topic

PLACE = place_of("k", 7, "srm-x.internal", "b")


def as_it_is(document: dict[str, Any]) -> dict[str, Any]:
    return document


def test_a_document_is_compact_text_with_the_version_first() -> None:
    document = {"b": 1, "a": ["ä", None], "c": {"d": 0.5}}
    assert encode(document) == '{"version":1,"b":1,"a":["ä",null],"c":{"d":0.5}}'.encode()
    assert decode(encode(document), as_it_is, PLACE) == document
    assert encode_key(["topic", "a->b", "ä"]) == '["topic","a->b","ä"]'


def test_what_a_flow_remembers_lies_under_value() -> None:
    servers = ClusterSettings.plaintext("b", "localhost:1")
    with FlowState(FlowSettings(FlowName("a", "b"), servers, servers)) as state:
        record = state.record("run", {"text": "é"})
        assert (record.topic, record.partition, record.key) == ("srm-flow-state.a.internal", 0, b"run")
        assert re.fullmatch(b'{"version":1,"written_ms":[0-9]{13},"value":{"text":"\xc3\xa9"}}', record.value or b"")
        assert flow_value(record.value or b"", PLACE)[0] == {"text": "é"}
        assert state.record("run", None).value is None
    assert flow_value(b'{"version":1,"value":5}', PLACE) == (5, 0), "records of the first version had no time"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "cannot be read"),
        (b"\xff", "cannot be read"),
        (b"[]", "cannot be read"),
        (b'[["version", 1]]', "cannot be read"),
        (b"{}", "cannot be read: KeyError('version')"),
        (b"[" * 100_000, "cannot be read"),
        (b'{"version":2}', "has version 2, only 1 is known"),
        (b'{"version":"1"}', "has version 1, only 1 is known"),
        (b'{"version":null}', "has version None"),
    ],
)
def test_what_is_no_document_of_ours_is_named_with_its_place(value: bytes, reason: str) -> None:
    with pytest.raises(CorruptRecord, match=re.escape(f"'k' at offset 7 of srm-x.internal on cluster 'b' {reason}")):
        decode(value, as_it_is, PLACE)


@pytest.mark.parametrize("error", [ValueError("x"), TypeError("x"), KeyError("x"), CorruptRecord("x")])
def test_what_its_owner_cannot_read_is_named_with_a_remedy(error: Exception) -> None:
    def refuse(document: dict[str, Any]) -> None:
        raise error

    reason = "x" if isinstance(error, CorruptRecord) else repr(error)
    message = f"{PLACE} cannot be read: {reason}; write a tombstone with that key to begin again"
    with pytest.raises(CorruptRecord, match=re.escape(message)):
        decode(encode({}), refuse, PLACE, "to begin again")


def test_a_topic_that_was_created_again_is_read_from_its_start_however_long_it_is() -> None:
    with FakeCluster() as kafka, KeyedTopic(ClusterSettings.plaintext("c", kafka.bootstrap_servers), "state") as topic:

        def written(keys: str) -> list[str]:
            topic.write("write", [topic.record(key, {}) for key in keys])
            return [(record.key or b"").decode() for record in topic.newest() or ()]

        kafka.create_topic("state")
        assert written("ab") == ["a", "b"]
        assert written("c") == ["a", "b", "c"]
        delete_topic(kafka, "state")
        kafka.create_topic("state")
        assert written("defg") == ["d", "e", "f", "g"]
        delete_topic(kafka, "state")
        assert topic.newest() is None
        kafka.create_topic("state")
        assert written("h") == ["h"]
