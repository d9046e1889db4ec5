"""What is used of kafka-python is there, and takes what it is given: the list that an upgrade is held against.

Beside the members in the tables, which were written by hand, the sources are read: a private member, a member of a base
class, or a field of a request that is used and not known to the library or not in the table fails here, too.
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
from srm_common.kafka.client.connections.connection import FrameConnection
from srm_common.kafka.client.connections.connections import FrameConnectionManager
from srm_common.kafka.client.connections.event_loop import EventLoop
from srm_common.kafka.client.connections.link_metadata import LinkMetadata
from srm_common.kafka.client.connections.transport import _ENCODING_DER, FrameTlsTransport, FrameTransport
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
from srm_common.kafka.client.logins.client_credentials import ClientCredentials, FetchedToken
from srm_common.kafka.client.protocol.frames import FrameProtocol

ROOT = Path(__file__).parents[4]
SOURCES = [*(ROOT / "srm_common/kafka").rglob("*.py"), *(ROOT / "srm_common/replication").rglob("*.py")]

#: class -> its members that are used: attributes by name, methods as they are called.
MEMBERS: dict[type, tuple[str, ...]] = {
    NetworkSelector: (
        "__init__(slow_task_threshold_secs=0, selector=None)",
        "call_soon(task)",
        "call_soon_threadsafe(task)",
        "call_soon_with_future(work, argument)",
        "call_at(when, task)",
        "call_later(delay, task)",
        "cancel(task)",
        "sleep(delay)",
        "wait_read(sock, timeout_at)",
        "wait_write(sock, timeout_at)",
        "wakeup()",
        "run(work)",
        "close()",
        "_add_ready_task(task)",
        "_poll_once(timeout)",
        "_process_events(events)",
        "_schedule_tasks()",
        "_task_done(task)",
        "_wait_io(sock, event, timeout_at)",
        "register_event(sock, event, task)",
        "unregister_event(sock, event)",
        "_closed",
        "_current",
        "_pending_tasks",
        "_poll_lock",
        "_ready",
        "_scheduled",
        "_selector",
    ),
    Task: ("__call__()", "close()", "push_stack(work)", "inject_exc(error)", "is_done", "state"),
    KernelEvent: ("__init__(method, argument)", "args", "method"),
    Future: (
        "success(value)",
        "failure(error)",
        "succeeded()",
        "add_both(call)",
        "add_errback(call)",
        "_add_cb_eb(call, fail)",
        "is_done",
        "value",
        "exception",
    ),
    KafkaTCPTransport: (
        "__init__(loop, sock, host=None)",
        "abort(error=None)",
        "close()",
        "handshake()",
        "_read_from_sock()",
        "_sock_send()",
        "_write_to_sock()",
        "write(data)",
        "writelines(data)",
        "_closed",
        "_net",
        "_protocol",
        "_read",
        "_sock",
        "_write",
        "_write_buffer",
        "_write_task",
        "_writing",
        "host",
        "last_read",
        "last_write",
    ),
    KafkaSSLTransport: ("__init__(loop, sock, host=None, ssl_context=None)", "_closed", "_write_buffer"),
    KafkaProtocol: (
        "__init__(client_id=None)",
        "send_request(request, number)",
        "send_bytes()",
        "receive_bytes(data)",
        "_next_correlation_id()",
        "_client_id",
        "bytes_to_send",
        "in_flight_requests",
    ),
    KafkaConnection: (
        "__init__(loop, node_id=None, broker_version_data=None)",
        "close(error)",
        "connection_lost(error)",
        "connection_made(transport)",
        "data_received(data)",
        "initialize(timeout_at=None)",
        "pause(why)",
        "unpause(why)",
        "send_request(request, request_timeout_ms=None)",
        "send_buffered()",
        "_get_api_versions(timeout_at)",
        "_maybe_throttle(answer)",
        "_sasl_authenticate(timeout_at)",
        "_timeout_at()",
        "_reauth",
        "_request_buffer",
        "_throttle_time",
        "broker_version_data",
        "close_future",
        "closed",
        "config",
        "connected",
        "in_flight_requests",
        "init_future",
        "initializing",
        "net",
        "node_id",
        "parser",
        "paused",
        "sasl_enabled",
        "transport",
    ),
    KafkaConnectionManager: (
        "__init__(loop)",
        "bootstrap_async(timeout_ms=1)",
        "close()",
        "connection_delay(node)",
        "get_connection(node)",
        "reset_backoff(node)",
        "socket_connection_setup_timeout_ms(node)",
        "update_backoff(node)",
        "_connect(node, connection, reset_backoff_on_connect=True, timeout_at=None)",
        "_do_bootstrap(deadline)",
        "_conns",
        "_net",
        "bootstrapped",
        "broker_version_data",
        "closed",
        "cluster",
        "config",
        "ssl_enabled",
    ),
    ClusterMetadata: (
        "__init__(bootstrap_servers=None, metadata_max_age_ms=1, client_dns_lookup=None)",
        "attach(manager)",
        "bootstrap_brokers()",
        "broker_metadata(node)",
        "brokers()",
        "failed_update(error)",
        "leader_for_partition(partition)",
        "metadata_request()",
        "partitions_for_topic(topic)",
        "refresh_metadata()",
        "request_update()",
        "start_refresh_loop()",
        "ttl()",
        "update_metadata(answer)",
        "_do_refresh_metadata(node)",
        "_refresh_loop()",
        "_wakeup(seconds)",
        "_brokers",
        "_last_successful_refresh_ms",
        "_manager",
        "_partitions",
        "_refresh_future",
        "_topic_ids",
        "_topic_names_by_id",
        "_topics",
        "closed",
        "config",
        "metadata_refresh_in_progress",
        "unauthorized_topics",
    ),
    AbstractTokenProvider: ("__init__()", "token()", "extensions()"),
    ApiMessage: (
        "decode(data, header=True)",
        "encode(framed=True, header=True)",
        "expect_response()",
        "flexible_version_q(3)",
        "with_header(correlation_id=1, client_id='srm')",
        "API_KEY",
        "API_VERSION",
        "_struct",
        "_version",
        "header",
        "tags",
        "unknown_tags",
    ),
    EncodeBufferPool: ("acquire()",),
}
#: What the members are that only a member of another class has.
OF_PARTS = {"is_reauthenticating": "_reauth", "on_response_processed": "_reauth"}
#: Keys of the settings that are given, and that answer for more than they say.
SETTINGS: dict[type, tuple[str, ...]] = {
    KafkaConnectionManager: (
        *("bootstrap_servers", "client_dns_lookup", "client_id", "connections_max_idle_ms", "metadata_max_age_ms"),
        *("max_in_flight_requests_per_connection", "reconnect_backoff_ms", "reconnect_backoff_max_ms"),
        *("request_timeout_ms", "sasl_mechanism", "sasl_oauth_token_provider", "sasl_plain_password"),
        *("sasl_plain_username", "security_protocol", "socket_connection_setup_timeout_ms", "socket_options"),
        *("ssl_context",),
    ),
    KafkaConnection: (
        *("client_id", "max_in_flight_requests_per_connection", "request_timeout_ms", "sasl_oauth_token_provider"),
        "security_protocol",
    ),
    ClusterMetadata: ("allow_auto_create_topics", "bootstrap_servers", "client_dns_lookup", "metadata_max_age_ms"),
}
#: request -> the versions that are asked for.
VERSIONS = {
    "ApiVersionsRequest": (3,),
    "AddPartitionsToTxnRequest": (3,),
    "CreateAclsRequest": (2,),
    "CreatePartitionsRequest": (3,),
    "CreateTopicsRequest": (5,),
    "DeleteAclsRequest": (2,),
    "DescribeAclsRequest": (1,),
    "DescribeConfigsRequest": (1, 4),
    "DescribeProducersRequest": (0,),
    "DescribeQuorumRequest": (1,),
    "EndTxnRequest": (3, 5),
    "FetchRequest": (12,),
    "FindCoordinatorRequest": (3, 4),
    "IncrementalAlterConfigsRequest": (1,),
    "InitProducerIdRequest": (4,),
    "ListGroupsRequest": (4, 5),
    "ListOffsetsRequest": (6, 8),
    "ListTransactionsRequest": (0,),
    "MetadataRequest": (10,),
    "OffsetCommitRequest": (8,),
    "OffsetFetchRequest": (7, 8),
    "OffsetForLeaderEpochRequest": (4,),
}
DERIVED: dict[type, type] = {
    EventLoop: NetworkSelector,
    FrameTransport: KafkaTCPTransport,
    FrameTlsTransport: KafkaSSLTransport,
    FrameProtocol: KafkaProtocol,
    FrameConnection: KafkaConnection,
    FrameConnectionManager: KafkaConnectionManager,
    LinkMetadata: ClusterMetadata,
    ClientCredentials: AbstractTokenProvider,
    FetchedToken: AbstractTokenProvider,
}


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
    of_pyspark = {"_gateway", "_ensure_initialized", "_jvm", "_jsparkSession", "_jdf", "_jc"}
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
            given = {str(keyword.arg) for keyword in node.keywords} - {"version", "None"}
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
