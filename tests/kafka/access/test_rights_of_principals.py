"""One right fewer for principals of other kinds than the user name of PLAIN, which ``test_rights.py`` has: brokers take
them from SCRAM, from a certificate or from a token. Each kind on each side, for some rights of the table."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding

from srm_common.testing import BrokerJvm, LocalKafka
from tests.kafka.access.documented_rights import ROWS, Flow, Row, user_of, word_of
from tests.kafka.access.secured import let_in, scram_listener, scram_login, tls_listener
from tests.kafka.acl_commands import create
from tests.kafka.authority import Authority
from tests.kafka.records import eventually
from tests.slot_worker import here
from tests.token_endpoint import TokenEndpoint, serving

pytestmark = pytest.mark.kafka

_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_LIFETIME_SECONDS = 3600
#: Of a user by SCRAM, by OAUTHBEARER, and by mutual TLS: what brokers call it, and what can be said of it here.
PRINCIPALS: Mapping[str, tuple[str, str]] = {
    "scram": ("User:{}", "User:{} needs"),
    "oauth": ("User:{}", "the principal of the login needs"),
    "tls": ("User:CN={}", "User:CN={}, or what ssl.principal.mapping.rules of the brokers make of it, needs"),
}
SIDES = [("scram", "tls"), ("tls", "scram"), ("oauth", "tls"), ("tls", "oauth")]
LACKING = [
    "source-READ-TOPIC-*",
    "source-WRITE-TOPIC-mm2-offset-syncs.b.internal",
    "target-WRITE-TOPIC-a.",
    "target-WRITE-TRANSACTIONAL_ID-a-mm2-MirrorSourceConnector-",
]
CASES = [(*sides, row) for sides in SIDES for row in ROWS if str(row) in LACKING]


@dataclass
class Guarded:
    """Two clusters with an authorizer; the tests themselves come in by the open listeners."""

    by_sasl: LocalKafka
    by_tls: LocalKafka
    authority: Authority
    endpoint: TokenEndpoint

    def kafka(self, kind: str) -> LocalKafka:
        return self.by_tls if kind == "tls" else self.by_sasl

    def login(self, kind: str, user: str) -> Mapping[str, str]:
        """What a properties file says."""
        if kind == "scram":
            let_in(self.by_sasl, user, f"{user}-pw", "SCRAM-SHA-256")
            return scram_login(user, f"{user}-pw", "SCRAM-SHA-256")
        if kind == "oauth":
            self.endpoint.token = lambda number: _token(user, number)
            return {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": self.endpoint.url,
                "sasl.jaas.config": f'{_OAUTH} required clientId="me" clientSecret="hush";',
            }
        return {
            "security.protocol": "SSL",
            "ssl.truststore.location": str(self.authority.pem),
            "ssl.keystore.location": str(self.authority.vouch_for(user)),
        }


def _token(user: str, number: int) -> str:
    """One that a broker without a validator of its own takes (RFC 7515, appendix A.5)."""
    now = int(time.time())
    parts = {"alg": "none"}, {"sub": user, "jti": number, "iat": now, "exp": now + _LIFETIME_SECONDS}
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


@pytest.fixture(scope="module")
def guarded(broker_jvm: BrokerJvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    authority = Authority(tmp_path_factory.mktemp("principals"), "authority")
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    sasl = {
        **scram_listener("SCRAM-SHA-256"),
        "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-256,OAUTHBEARER",
        "listener.name.client.oauthbearer.sasl.jaas.config": f"{_OAUTH} required unsecuredLoginStringClaim_sub=a;",
    }
    mutual = {
        **tls_listener(authority.vouch_for("127.0.0.1")),
        "listener.name.client.ssl.truststore.type": "PEM",
        "listener.name.client.ssl.truststore.location": str(authority.pem),
        "listener.name.client.ssl.client.auth": "required",
    }
    with (
        serving(token=lambda number: _token("nobody", number), lifetime=_LIFETIME_SECONDS) as endpoint,
        LocalKafka(
            name="sasl", client_protocol="SASL_PLAINTEXT", settings=authorizer | sasl, jvm=broker_jvm
        ) as by_sasl,
        LocalKafka(name="tls", client_protocol="SSL", settings=authorizer | mutual, jvm=broker_jvm) as by_tls,
    ):
        yield Guarded(by_sasl, by_tls, authority, endpoint)


@dataclass
class OtherFlow(Flow):
    """A flow whose principals are not of PLAIN."""

    logins: Mapping[str, Mapping[str, str]] | None = None

    def login(self, side: str) -> Mapping[str, str]:
        assert self.logins is not None
        return self.logins[side]


@pytest.mark.parametrize(
    ("source", "target", "row"), CASES, ids=[f"{source}-to-{target}-{row}" for source, target, row in CASES]
)
def test_one_right_fewer_names_whom_the_login_knows(
    guarded: Guarded,
    source: str,
    target: str,
    row: Row,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Slots are copied here, not in Spark.
    monkeypatch.setattr(
        "srm_common.cli.commands.run.pass_runner",
        lambda settings, master: here,
    )
    number = CASES.index((source, target, row))
    kinds, user = {"source": source, "target": target}, user_of(number)
    kafkas = {side: guarded.kafka(kind) for side, kind in kinds.items()}
    logins = {side: guarded.login(kind, user) for side, kind in kinds.items()}
    rights = {one: one.of(number, PRINCIPALS[kinds[one.side]][0].format(user)) for one in ROWS}
    lacking = rights.pop(row)
    for side, kafka in kafkas.items():
        create(kafka, [right for one, right in rights.items() if one.side == side])
    flow = OtherFlow(number, kafkas, tmp_path, capsys, logins=logins)
    flow.configure({})
    flow.begin()
    said: list[str] = []
    for _ in range(2):
        code, printed = flow.command("run")
        assert "Traceback" not in printed
        said = _sentences(lacking, PRINCIPALS[kinds[row.side]][1].format(user), printed)
        assert not code or said, printed
        if said:
            break
        flow.write()
    assert said, f"{row} is not needed"
    create(kafkas[row.side], [lacking])

    def whole() -> bool:
        code, printed = flow.command("run")
        return code == 0 and "needs the permission" not in printed

    eventually(whole, 300, "a right that was given makes no difference")
    assert flow.equal()


def _sentences(lacking: AclBinding, who: str, printed: str) -> list[str]:
    """Those that name the login, the right and the resource."""
    right = word_of(lacking.operation).title()
    kind = word_of(lacking.restype).lower().replace("_", " ")
    name = re.escape("" if lacking.name == "*" else lacking.name)
    return re.findall(
        rf"^.*{re.escape(who)} the permission (?:{right}|Describe) on {kind} '{name}[^']*'.*$", printed, re.M
    )
