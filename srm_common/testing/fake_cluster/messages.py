"""Decodes requests and encodes responses by kafka-python's schemas; the API versions that the brokers offer.

Handlers answer with plain mappings, in the snake case of Kafka's field names; what one leaves out has the default of
the schema.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from srm_common.kafka.client.library import messages
from srm_common.kafka.client.protocol.messages import body_decoder
from srm_common.testing.fake_cluster.encoding import Encoder, response_encoder

Answer = dict[str, Any]

_HEAD, _LENGTH = struct.Struct(">hhi"), struct.Struct(">h")
#: The start of an answer: its length, and the correlation id.
_HEADER, _CORRELATION_BYTES = struct.Struct(">ii"), 4
_API_VERSIONS, UNSUPPORTED_VERSION = "ApiVersions", 35

#: Newest versions that differ from the library's: Produce and commits that name topics instead of their ids, no
#: two-phase commits, and AddPartitionsToTxn as clients send it.
_NEWEST = {
    "Fetch": 13,
    "Produce": 12,
    "OffsetCommit": 9,
    "OffsetFetch": 9,
    "InitProducerId": 5,
    "AddPartitionsToTxn": 3,
}

#: APIs that change what a cluster has.
CHANGES = frozenset(
    {
        *("AddOffsetsToTxn", "AddPartitionsToTxn", "AlterConfigs", "CreateAcls", "CreatePartitions", "CreateTopics"),
        *("DeleteAcls", "DeleteGroups", "DeleteRecords", "DeleteTopics", "EndTxn", "IncrementalAlterConfigs"),
        *("InitProducerId", "OffsetCommit", "OffsetDelete", "Produce", "TxnOffsetCommit"),
    }
)


#: The error message for requests that a test refuses.
REFUSED_BY_TEST = "refused by the test"


class Refused(Exception):
    """The broker's answer to a part of a request is an error code."""

    def __init__(self, code: int, message: str | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class UnknownApi(Exception):
    """A request that the fake has no answer to."""


@dataclass(slots=True)
class Call:
    """One request to one node. ``body`` has the fields of Kafka's schema in snake case."""

    api: str
    version: int
    node: int
    client_id: str
    body: Any
    refusal: Callable[[str, str], int] = lambda api, name: 0
    refusal_after: Callable[[str, str], int] = lambda api, name: 0

    def check(self, name: str = "") -> None:
        """Raises Refused where the test wants this API refused for a topic, group, transactional id or resource."""
        code = self.refusal(self.api, name)
        if code:
            raise Refused(code, REFUSED_BY_TEST)

    def refused(self, name: str = "") -> int:
        """The same as a code, 0 for none."""
        return self.refusal(self.api, name)


class Protocol:
    """The APIs that the brokers of a cluster offer.

    Args:
        answered: names of the APIs that have handlers.
        newest: newest versions that differ, by API; a negative one takes the API away, as from older brokers.
        newest_of: the same of single nodes, by their numbers.
    """

    def __init__(
        self, answered: set[str], newest: Mapping[str, int], newest_of: Mapping[int, Mapping[str, int]] | None = None
    ) -> None:
        known = messages()
        self._by_key = {int(request.API_KEY): name for name, (request, _) in known.items()}
        self._answered = answered
        self.versions = self._versions(newest)
        self._versions_of = {node: self._versions({**newest, **own}) for node, own in (newest_of or {}).items()}
        #: The newest answer to ApiVersions in each version, and its bytes: every connection asks for it.
        self._versions_written: dict[int, tuple[Answer, bytes]] = {}
        self._offered = _listed(self.versions)
        self._offered_by = {node: _listed(versions) for node, versions in self._versions_of.items()}

    def _versions(self, newest: Mapping[str, int]) -> dict[str, tuple[int, int]]:
        versions = {}
        for name in sorted(self._answered):
            oldest, latest = messages()[name][0].valid_versions
            latest = newest.get(name, min(latest, _NEWEST.get(name, latest)))
            if latest >= 0:
                versions[name] = min(oldest, latest), latest
        return versions

    def offered(self, node: int) -> list[Answer]:
        """The list in a node's answer to ApiVersions."""
        return self._offered_by.get(node, self._offered)

    def versions_answer(self, call: Call, features: Mapping[str, int]) -> Answer:
        """The answer to ApiVersions of a cluster with these levels of features; 0 is none."""
        if call.body is None:
            return {"error_code": UNSUPPORTED_VERSION, "api_keys": self.offered(call.node)}
        levels = [(name, level) for name, level in features.items() if level > 0]
        return {
            "error_code": call.refused(),
            "api_keys": self.offered(call.node),
            "supported_features": [{"name": name, "min_version": 0, "max_version": level} for name, level in levels],
            "finalized_features_epoch": 1,
            "finalized_features": [
                {"name": name, "max_version_level": level, "min_version_level": level} for name, level in levels
            ],
        }

    def read(self, payload: memoryview, node: int) -> tuple[Call, int]:
        """The request in a frame and its correlation id.

        A version of ApiVersions that is too new comes as version 0, which every client understands the answer to.

        Raises:
            UnknownApi: names the API and the version that is not offered.
        """
        key, version, correlation_id = _HEAD.unpack_from(payload)
        name = self._by_key.get(key, f"number {key}")
        oldest, newest = self._versions_of.get(node, self.versions).get(name, (0, -1))
        if name == _API_VERSIONS and version > newest:
            return Call(name, 0, node, "", None), correlation_id
        if not oldest <= version <= newest:
            raise UnknownApi(f"the fake cluster does not answer {name} in version {version}")
        decode, flexible = _request_decoder(name, version)
        client_id, at = _client_id(payload)
        if flexible:
            if payload[at]:
                raise UnknownApi(f"the fake cluster knows no tagged fields of request headers, as {name} has")
            at += 1
        return Call(name, version, node, client_id, decode(payload, at)[0]), correlation_id

    def write(self, call: Call, correlation_id: int, answer: Answer) -> bytes:
        """The frame of an answer.

        Raises:
            ValueError: names fields that the schema does not have.
        """
        encode, end = _answer_encoder(call.api, call.version)
        if call.api != _API_VERSIONS:
            content = _encoded(encode, answer)
        else:
            known, content = self._versions_written.get(call.version, ({}, b""))
            if known != answer:
                content = _encoded(encode, answer)
                self._versions_written[call.version] = answer, content
        return _HEADER.pack(_CORRELATION_BYTES + len(end) + len(content), correlation_id) + end + content


def _listed(versions: Mapping[str, tuple[int, int]]) -> list[Answer]:
    return [
        {"api_key": int(messages()[name][0].API_KEY), "min_version": oldest, "max_version": newest}
        for name, (oldest, newest) in versions.items()
    ]


@cache
def _request_decoder(api: str, version: int) -> tuple[Callable[[memoryview, int], tuple[Any, int]], bool]:
    """What makes an object of the body of a request, and whether its header ends with tags."""
    kind = messages()[api][0]
    return body_decoder(kind, version), kind.flexible_version_q(version)


@cache
def _answer_encoder(api: str, version: int) -> tuple[Encoder, bytes]:
    """What encodes the body of an answer, and the end of its header.

    The header of ApiVersions is never flexible: the client does not know yet what the broker supports (KIP-511).
    """
    kind = messages()[api][1]
    flexible = api != _API_VERSIONS and kind.flexible_version_q(version)
    return response_encoder(kind, version), b"\0" * flexible


def _encoded(encode: Encoder, answer: Answer) -> bytes:
    """The body of an answer."""
    pieces: list[bytes] = []
    encode(answer, pieces.append)
    return b"".join(pieces)


def _client_id(payload: memoryview) -> tuple[str, int]:
    """The client's id, empty for none, and where it ends; its length has two bytes in every version of the header."""
    (length,) = _LENGTH.unpack_from(payload, _HEAD.size)
    begin = _HEAD.size + _LENGTH.size
    end = begin + max(length, 0)
    return str(payload[begin:end], "utf-8"), end
