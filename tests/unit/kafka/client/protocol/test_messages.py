"""Requests and answers are the same bytes and objects as the library makes of them in its own way."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslBytesRequest, SaslHandshakeRequest

from srm_common.kafka.client.library import ApiVersionsRequest, messages
from srm_common.kafka.client.protocol.messages import answer_decoder, body_decoder, encoded, request_part
from srm_common.testing.fake_cluster.encoding import response_encoder


def _filled(kind: Any, version: int) -> Any:
    """A message of which every field of the version has a value, one item in each array."""
    return kind(version=version, **_values(kind.fields.values(), version))


def _values(fields: Any, version: int) -> dict[str, Any]:
    return {field.name: _value(field, version) for field in fields if field.for_version_q(version)}


def _value(field: Any, version: int) -> Any:
    if field.is_struct_array():
        return [field.data_class(**_values(field.fields.values(), version))]
    if field.is_struct():
        return field.data_class(**_values(field.fields.values(), version))
    if field.is_array():
        return [_simple(field.array_of)]
    return _simple(field)


def _simple(field: Any) -> Any:
    kind = field.type_str
    if kind in ("string", "bytes", "records"):
        return "text" if kind == "string" else b"bytes"
    return {"bool": True, "float64": 1.5}.get(kind, field.default if "int" not in kind else 7)


#: Every request of every API and version.
REQUESTS = [
    pytest.param(request, version, id=f"{name} {version}")
    for name, (request, _) in sorted(messages().items())
    for version in range(request.valid_versions[0], request.valid_versions[1] + 1)
]


@pytest.mark.parametrize(("kind", "version"), REQUESTS)
def test_a_request_has_the_bytes_that_the_library_makes_of_it(kind: Any, version: int) -> None:
    for name in ("", "srm flow \N{SNOWMAN}"):
        request = _filled(kind, version)
        ours = bytes(encoded(request, 77, name))
        request.with_header(correlation_id=77, client_id=name)
        assert ours == bytes(request.encode(framed=True, header=True))


@pytest.mark.parametrize(("kind", "version"), REQUESTS)
def test_an_answer_is_what_the_library_makes_of_its_bytes(kind: Any, version: int) -> None:
    response = messages()[kind.name.removesuffix("Request")][1]
    answer = _filled(response, version)
    # With an error, an answer to ApiVersions has version 0 whatever was asked.
    if kind is ApiVersionsRequest:
        answer.error_code = 0
    answer.with_header(correlation_id=77)
    frame = bytes(answer.encode(header=True))
    found = answer_decoder(_filled(kind, version))(frame)
    assert repr(found) == repr(response[version].decode(frame, header=True))
    body = bytes(answer.encode())
    assert repr(body_decoder(response, version)(memoryview(body), 0)) == repr(
        (response[version].decode(body), len(body))
    )


def test_an_answer_with_tags_in_its_header_is_read() -> None:
    kind, response = messages()["InitProducerId"]
    body = bytes(_filled(response, 4).encode())
    tagged = struct.pack(">i", 77) + b"\x01\x05\x03abc" + body
    decode = answer_decoder(_filled(kind, 4))
    assert repr(decode(tagged)) == repr(decode(struct.pack(">i", 77) + b"\0" + body))


def _with(answer: dict[str, Any], version: int) -> bytes:
    pieces = [struct.pack(">i", 1)]
    response_encoder(messages()["ApiVersions"][1], version)(answer, pieces.append)
    return b"".join(pieces)


def test_equal_answers_to_api_versions_are_read_once() -> None:
    decode = answer_decoder(ApiVersionsRequest(version=3))
    frames = [_with({"api_keys": [{"api_key": key, "max_version": 3}]}, 3) for key in (1, 1, 2)]
    first, again, other = map(decode, frames)
    assert first is again
    assert [one.api_keys[0].api_key for one in (first, other)] == [1, 2]
    assert decode(memoryview(_with({"error_code": 35, "api_keys": []}, 0))).error_code == 35


@pytest.mark.parametrize("make", [SaslHandshakeRequest, SaslAuthenticateRequest])
def test_logins_go_the_same_way(make: Callable[..., Any]) -> None:
    request = make(version=1)
    ours = bytes(encoded(request, 5, "srm"))
    request.with_header(correlation_id=5, client_id="srm")
    assert ours == bytes(request.encode(framed=True, header=True))


def test_the_bytes_of_an_old_login_have_no_header() -> None:
    assert encoded(SaslBytesRequest(b"token"), 5, "srm") == b"\0\0\0\x05token"


def test_a_request_without_a_version_is_an_error() -> None:
    with pytest.raises(ValueError, match="a ApiVersionsRequest without a version"):
        encoded(ApiVersionsRequest(), 1, "srm")


def test_a_part_is_what_the_constructor_makes() -> None:
    kind, _ = messages()["ListOffsets"]
    topic = kind.ListOffsetsTopic

    def bytes_by(make: Callable[..., Any]) -> bytes:
        part = make(topic.ListOffsetsPartition, partition_index=3, current_leader_epoch=-1, timestamp=-2)
        whole = make(topic, name="t", partitions=[part])
        return bytes(encoded(kind(version=6, replica_id=-1, isolation_level=1, topics=[whole]), 1, "srm"))

    assert bytes_by(request_part) == bytes_by(lambda of, **fields: of(**fields))
    with pytest.raises(AttributeError, match="partition_indx"):
        request_part(topic.ListOffsetsPartition, partition_indx=3)
