"""What is used of kafka-python (``library_members.py``) is there, and takes what it is given.

The sources are read, too: a private member, a member of a base class, or a field of a request that is used and not
known to the library or not in the tables fails here.
"""

from __future__ import annotations

import _ssl
import ast
import inspect
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from kafka.structs import TopicPartition as LibraryPartition

from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client import library
from srm_common.kafka.client.connections.transport import _ENCODING_DER
from srm_common.kafka.client.library import (
    AbstractTokenProvider,
    ApiMessage,
    ApiVersionsRequest,
    ClusterMetadata,
    EncodeBufferPool,
    Errors,
    Future,
    KafkaConnection,
    KafkaConnectionManager,
    KafkaProtocol,
    KafkaSSLTransport,
    KafkaTCPTransport,
    KernelEvent,
    NetworkSelector,
    Task,
    TaskState,
)
from srm_common.kafka.client.logins.kept_tokens import FetchedToken
from tests.unit.kafka.client.library_members import DERIVED, MEMBERS, OF_PARTS, SETTINGS, VERSIONS

ROOT = Path(__file__).parents[4]
SOURCES = [*(ROOT / "srm_common/kafka").rglob("*.py"), *(ROOT / "srm_common/replication").rglob("*.py")]


@cache
def trees() -> dict[str, ast.Module]:
    """File -> its syntax tree."""
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in SOURCES}


@pytest.fixture(scope="module")
def objects() -> Iterator[dict[type, Any]]:
    """One object of each of the library's classes."""
    with ExitStack() as undo:
        loop = NetworkSelector()
        undo.callback(loop.close)
        pairs = [socket.socketpair() for _ in range(2)]
        for one in (*pairs[0], *pairs[1]):
            undo.callback(one.close)
        manager = KafkaConnectionManager(loop)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        yield {
            NetworkSelector: loop,
            KernelEvent: KernelEvent("_sleep", 1.0),
            Task: Task(lambda: None),
            Future: Future(),
            KafkaTCPTransport: KafkaTCPTransport(loop, pairs[0][0]),
            KafkaSSLTransport: KafkaSSLTransport(loop, pairs[1][0], host="localhost", ssl_context=context),
            KafkaProtocol: KafkaProtocol(),
            KafkaConnection: KafkaConnection(loop),
            KafkaConnectionManager: manager,
            ClusterMetadata: manager.cluster,
            AbstractTokenProvider: FetchedToken("t", {}),
            ApiMessage: ApiVersionsRequest(version=3),
            EncodeBufferPool: EncodeBufferPool,
        }


def name_of(member: str) -> str:
    return member.partition("(")[0]


def mismatch(kind: type, found: Any, member: str) -> str | None:
    """Why a member cannot be used as the table says."""
    name = name_of(member)
    if name == "__init__":
        found = kind
    elif not hasattr(found, name):
        return f"{kind.__name__}.{name} is gone"
    else:
        found = getattr(found, name)
    if "(" not in member:
        return None
    call = ast.parse(f"f({member.partition('(')[2]}", mode="eval").body
    assert isinstance(call, ast.Call)
    try:
        inspect.signature(found).bind(*call.args, **{str(keyword.arg): keyword.value for keyword in call.keywords})
    except TypeError as error:
        return f"{kind.__name__}.{member} cannot be called so any more: {error}"
    return None


def test_the_library_has_what_is_used_of_it(objects: dict[type, Any]) -> None:
    faults = [
        fault
        for kind, members in MEMBERS.items()
        for member in members
        if (fault := mismatch(kind, objects[kind], member)) is not None
    ]
    faults += [
        f"{kind.__name__} knows no setting {key}"
        for kind, keys in SETTINGS.items()
        for key in keys
        if key not in objects[kind].config
    ]
    faults += [
        f"KafkaConnection.{part}.{name} is gone"
        for name, part in OF_PARTS.items()
        if not hasattr(getattr(objects[KafkaConnection], part), name)
    ]
    faults += [f"TaskState.{name} is gone" for name in ("DONE", "WAIT_IO") if not hasattr(TaskState, name)]
    # The metadata are asked with a partition of ours.
    faults += [f"TopicPartition has the fields {LibraryPartition._fields}"] * (
        LibraryPartition._fields != TopicPartition._fields or LibraryPartition("t", 3) != ("t", 3)
    )
    assert faults == []


def test_the_errors_that_are_told_apart_are_there() -> None:
    used = {
        node.attr
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Errors"
    }
    assert {name for name in used if not hasattr(Errors, name)} == set()
    assert len(used) > 10
    assert Errors.for_code(51).__name__ == "ConcurrentTransactionsError"
    assert Errors.for_code(6).invalid_metadata


def test_what_is_replaced_takes_what_the_library_gives() -> None:
    """A method of ours in place of one of the library's, which the library calls as it does its own."""
    faults = []
    for ours, theirs in DERIVED.items():
        for name, method in inspect.getmembers(ours, inspect.isfunction):
            base = getattr(theirs, name, None)
            if name == "__init__" or base is None or base is method or not inspect.isfunction(base):
                continue
            given = list(inspect.signature(base).parameters.values())
            taken = list(inspect.signature(method).parameters.values())
            by_name = {parameter.name for parameter in given if parameter.default is not parameter.empty} - {
                parameter.name for parameter in taken
            }
            if len(given) > len(taken) or by_name:
                faults.append(
                    f"{theirs.__name__}.{name}{inspect.signature(base)}: ours takes {inspect.signature(method)}"
                )
    assert faults == []


def test_each_private_member_that_is_used_is_in_the_table() -> None:
    known = {name_of(member) for members in MEMBERS.values() for member in members}
    of_pyspark = {"_gateway", "_ensure_initialized", "_jvm", "_jsparkSession", "_jdf", "_jc", "_jsc"}
    of_ssl = {"_sslobj"}  # of a socket, None before the handshake; what is in it is public from Python 3.13 on
    assert hasattr(vars(_ssl)["_SSLSocket"], "get_verified_chain")
    assert _ssl.ENCODING_DER == _ENCODING_DER
    strangers = set()
    for path, tree in trees().items():
        defined: set[str] = set()
        used: set[str] = set()
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    defined.add(name)
                case ast.AnnAssign(target=ast.Name(id=name), value=value) if name.startswith("_"):
                    # Named without a value: of the class that ours are derived from.
                    (used if value is None else defined).add(name)
                case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                    defined.add(name)
                case ast.Attribute(attr=name):
                    used.add(name)
        strangers |= {
            f"{path}: {name}"
            for name in used - defined - known - of_pyspark - of_ssl
            # Names in capitals are confluent-kafka's codes.
            if name.startswith("_") and not name.startswith("__") and name != name.upper()
        }
    assert strangers == set()


def test_each_member_of_a_base_class_that_is_used_is_in_the_table() -> None:
    bases = {kind.__name__: {name_of(member) for member in members} for kind, members in MEMBERS.items()}
    bases["KafkaSSLTransport"] |= bases["KafkaTCPTransport"]
    strangers = set()
    for tree in trees().values():
        for node in tree.body:
            if not isinstance(node, ast.ClassDef):
                continue
            base = next((one.id for one in node.bases if isinstance(one, ast.Name) and one.id in bases), None)
            if base is None:
                continue
            own = {one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
            own |= set(dir(next(ours for ours in DERIVED if ours.__name__ == node.name))) - set(
                dir(next(kind for kind in MEMBERS if kind.__name__ == base))
            )
            used = set()
            for part in ast.walk(node):
                match part:
                    case ast.Attribute(attr=name, value=ast.Name(id="self"), ctx=ast.Store()):
                        own.add(name)
                    case ast.Attribute(attr=name, value=ast.Name(id="self")):
                        used.add(name)
                    case ast.Attribute(attr=name, value=ast.Call(func=ast.Name(id="super"))):
                        used.add(name)
                        own.discard(name)
            strangers |= {f"{node.name}: {base}.{name}" for name in used - own - bases[base]}
    assert strangers == set()


def parts_of(kind: Any) -> dict[str, Any]:
    """Name -> class of the parts of a request."""
    found = {}
    for field in kind.fields.values():
        if field.is_struct() or field.is_struct_array():
            found[field.data_class.__name__] = field.data_class
            found |= parts_of(field.data_class)
    return found


def test_requests_have_the_fields_and_versions_that_are_sent() -> None:
    requests = {name: getattr(library, name) for name in library.__all__ if name.endswith("Request")}
    parts: dict[str, list[Any]] = {}
    for kind in requests.values():
        for name, part in parts_of(kind).items():
            parts.setdefault(name, []).append(part)
    faults = []
    made = set()
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            given = {str(keyword.arg) for keyword in node.keywords} - {"version", "min_version", "max_version", "None"}
            match node.func:
                case ast.Name(id=name) if name in requests:
                    kinds = [requests[name]]
                    made.add(name)
                case ast.Name(id="request_part") if isinstance(node.args[0], ast.Attribute):
                    kinds = parts.get(node.args[0].attr, [])
                case ast.Attribute(attr=name, value=ast.Name(id="kind" | "topic" | "resource")) if name[0].isupper():
                    kinds = parts.get(name, [])
                case _:
                    continue
            if not any(given <= set(kind.fields) for kind in kinds):
                faults.append(f"{path}: {name} has no such fields: {sorted(given)}")
    faults += [
        f"{name} has no version {version}"
        for name, versions in VERSIONS.items()
        for version in versions
        if not requests[name].min_version <= version <= requests[name].max_version
    ]
    assert faults == []
    assert made == set(requests) == set(VERSIONS)
