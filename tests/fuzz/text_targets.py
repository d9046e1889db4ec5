"""Texts that people write: properties, logins, filters, patterns, statements, start positions; key stores and
certificates."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from hashlib import sha1
from random import Random

from srm_common.domain.filters.flow_filters import FilterLists
from srm_common.domain.flow import FlowName
from srm_common.domain.flow.start_position import StartPosition, parse_topic_starts
from srm_common.domain.groups.group_offsets import parse_group_offsets
from srm_common.domain.offsets.offset_edits import parse_offsets_file
from srm_common.domain.patterns.java_regex import RegexError, compile_java_regex
from srm_common.domain.plans.plan import PlanFile
from srm_common.domain.runs.run_options import RunSelection
from srm_common.domain.transforms.chain import parse_chain
from srm_common.domain.transforms.faults import TransformFault
from srm_common.domain.transforms.statements import parse_statements
from srm_common.errors import ConfigError, SrmError
from srm_common.settings_files.connections.airflow_connections import AirflowConnection
from srm_common.settings_files.connections.login_keys import parse_jaas
from srm_common.settings_files.conversion.connectors import connectors_of
from srm_common.settings_files.conversion.strimzi import strimzi_draft_of
from srm_common.settings_files.sources.properties import parse_properties
from srm_common.wire.keystores.certificates import java_name, java_subject, of_der, of_pem
from srm_common.wire.keystores.java_stores import read_java_store
from tests.fuzz.target import Target


def _text(reads: Callable[[str], object]) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        reads(data.decode("utf-8", "surrogateescape"))

    return read


def _written(values: dict[str, str]) -> bytes:
    return "\n".join(f"{key} = {value}" for key, value in values.items()).encode()


def _chain(text: str) -> None:
    values = {parse_property.key: parse_property.value for parse_property in parse_properties(text)}
    parse_chain(values)
    parse_statements(values)


_CHAIN = {
    "transforms": "mask,cast,route,filter",
    "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
    "transforms.mask.fields": "card,cvc",
    "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
    "transforms.cast.spec": "a:int32,b:string",
    "transforms.route.type": "org.apache.kafka.connect.transforms.TimestampConverter$Value",
    "transforms.route.field": "at",
    "transforms.route.target.type": "string",
    "transforms.route.format": "yyyy-MM-dd'T'HH:mm:ss.SSS",
    "transforms.filter.type": "org.apache.kafka.connect.transforms.Filter",
    "transforms.filter.predicate": "p",
    "predicates": "p",
    "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
    "predicates.p.name": "x",
}
_PROPERTIES = b"""# comment
clusters = east, west
east.bootstrap.servers = a:9092,\\
    b:9092
west.sasl.jaas.config = org.apache.kafka.PlainLoginModule required username="a" password="b\\"c";
east->west.topics = orders.*, \\u00fc
east->west.enabled : true
"""
_JAAS = [
    b'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p\\"q" ;',
    b"com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab='/etc/k' principal=\"a@B\";",
]
_PATTERNS = [
    b"orders.*|pay(ments)?[a-z&&[^x]]{2,5}\\d+",
    b"(?i:abc)(?=x)(?<!y)\\Qa.b\\E[\\p{Alpha}\\x41]*+$",
    b"^(?<name>a|b)\\k<name>\\1.+?(?:z)$",
]


def _pattern(text: str) -> None:
    compile_java_regex(text).matches("orders.eu")


def _jks(certificate: bytes, password: str = "changeit") -> bytes:
    body = b"\xfe\xed\xfe\xed" + (2).to_bytes(4, "big") + (1).to_bytes(4, "big") + (2).to_bytes(4, "big")
    body += (2).to_bytes(2, "big") + b"ca" + bytes(8) + (5).to_bytes(2, "big") + b"X.509"
    body += len(certificate).to_bytes(4, "big") + certificate
    return _signed(body, password)


def _signed(body: bytes, password: str = "changeit") -> bytes:
    return body + sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def _hidden_key() -> bytes:
    """A store with a key whose hidden bytes are nobody's."""
    hidden = b"\x30\x82\x00\x40\x30\x0e\x06\x0a" + bytes(10) + b"\x04\x2e" + bytes(46)
    body = b"\xfe\xed\xfe\xed" + (2).to_bytes(4, "big") + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
    body += (1).to_bytes(2, "big") + b"k" + bytes(8) + len(hidden).to_bytes(4, "big") + hidden + bytes(4)
    return _signed(body)


def a_certificate() -> bytes:
    """Of CN=ca, until 2040, as DER."""
    from datetime import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(7).not_valid_before(datetime(2020, 1, 1)).not_valid_after(datetime(2040, 1, 1))
    return builder.sign(key, None).public_bytes(Encoding.DER)


def _certificate_text() -> bytes:
    return ssl.DER_cert_to_PEM_cert(a_certificate()).encode() * 2


#: C=DE,O="a, b",CN=x and an e-mail address, which has no name in RFC 2253.
_NAME = bytes.fromhex(
    "303a310b3009060355040613024445310e300c060355040a0c05612c202262310a30080603550403130178310f300d06092a864886f70d010901"
    "1600"
)


def _resigned(data: bytes, chance: Random) -> bytes:
    return _signed(data[:-20]) if chance.random() < 0.95 else data


_PLAN = json.dumps(
    {
        "plan": 1,
        "flow": "a->b",
        "made_ms": 1,
        "source_cluster_id": "x",
        "target_cluster_id": "y",
        "actions": [{"kind": "create"}],
        "topics": [{"topic": "t", "remote_topic": "a.t", "accepted": True}],
        "restore": {},
    }
).encode()
_SELECTION = json.dumps(
    {"filters": {"topics": ["a.*"]}, "origin": "", "topics": None, "topics_exclude": "b", "notes": ["n"]}
).encode()
_CONNECTORS = [
    b"""apiVersion: kafka.strimzi.io/v1
kind: KafkaConnector
metadata: {name: c, labels: {a: b}}
spec: {class: org.apache.kafka.connect.mirror.MirrorSourceConnector, tasksMax: 2, pause: true, config: {topics: a}}
---
items: [{kind: KafkaConnector, spec: {}}]
""",
    b'{"c": {"info": {"name": "c", "config": {"connector.class": "MirrorSourceConnector"}}, "status": {"connector": '
    b'{"state": "PAUSED"}}}}',
]
_STRIMZI = b"""kind: KafkaMirrorMaker2
spec:
  target: {alias: b, bootstrapServers: "b:1", tls: {trustedCertificates: [{secretName: s, pattern: c}]}, config: {a: 1}}
  clusters:
  - {alias: a, bootstrapServers: "a:1", authentication: {type: plain, passwordSecret: {secretName: s, password: p}}}
  mirrors:
  - {sourceCluster: a, sourceConnector: {tasksMax: 2, pause: true, config: {x: true}}, topicsPattern: t}
"""
_NAMED = (ConfigError,)
TARGETS = (
    Target("properties", [_PROPERTIES], _text(lambda text: list(parse_properties(text))), _NAMED),
    Target("jaas", _JAAS, _text(parse_jaas), (ValueError,)),
    Target("pattern", _PATTERNS, _text(_pattern), (RegexError,)),
    Target(
        "transforms",
        [_written(_CHAIN), b"transforms.sql = SELECT value FROM records\ntransforms.sql.a = SELECT key FROM records"],
        _text(_chain),
        (TransformFault, ConfigError),
    ),
    Target("start", [b"earliest", b"2026-01-02T03:04:05Z", b"latest-100", b"PT1H"], _text(StartPosition.parse), _NAMED),
    Target("topic-starts", [b"orders.*=latest, pay=earliest"], _text(parse_topic_starts), _NAMED),
    Target("flow-name", [b"east->west"], _text(FlowName.parse), _NAMED),
    Target("selection", [_SELECTION], _text(RunSelection.parse), _NAMED),
    Target("filter-lists", [b'{"topics": ["a"], "groups": []}'], _text(FilterLists.parse), (SrmError,)),
    Target(
        "offsets-file",
        [b"orders 0 5\norders 1 7\n", b'{"orders-0": 5}', b"topic,partition,offset\norders,0,5\n"],
        _text(lambda text: parse_offsets_file(text, "file")),
        _NAMED,
    ),
    Target(
        "group-offsets",
        [b'"g","orders",0,5\n"g","orders",1,7\n', b"orders,0,5\n"],
        _text(lambda text: parse_group_offsets(text, "file", ["g"])),
        _NAMED,
    ),
    Target(
        "plan-file",
        [_PLAN],
        _text(lambda text: PlanFile.parse(text, "file")),
        _NAMED,
    ),
    Target(
        "airflow-connection",
        [b"kafka://u:p%40q@host:9092/?a=b", b'{"conn_type": "kafka", "extra": "{\\"bootstrap.servers\\": \\"a:1\\"}"}'],
        _text(lambda text: AirflowConnection.parse("c", text)),
        _NAMED,
    ),
    Target("connectors", _CONNECTORS, _text(lambda text: connectors_of(text, "file")), _NAMED),
    Target("strimzi", [_STRIMZI], _text(lambda text: strimzi_draft_of(text, "file")), _NAMED),
    Target("certificate", [a_certificate()], lambda data: of_der([data]), (ValueError,), keep=4),
    Target("certificate-text", [_certificate_text()], _text(of_pem), (ValueError,), keep=27),
    Target("certificate-subject", [_certificate_text()], _text(java_subject), (ValueError,), keep=27),
    Target("java-name", [_NAME], java_name, (ValueError,), keep=2),
    Target(
        "java-store",
        [_jks(a_certificate()), _hidden_key()],
        lambda data: read_java_store(data, "changeit"),
        (ValueError,),
        _resigned,
    ),
)
