"""Runs with secrets of every kind, in Spark, leave them nowhere that others can read: a client's secret and its tokens
on one side, a key in a store with passwords on the other one, and what else a file may hold."""

from __future__ import annotations

import base64
import contextlib
import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from srm_common.cli.main import run as srm_control
from srm_common.settings_files.configuration import load_configuration
from srm_common.testing import BrokerJvm, LocalKafka, ReservedPort
from srm_common.wire.keystores.java_stores import read_java_store
from tests.kafka.access.secured import tls_listener
from tests.kafka.access.test_java_stores import keytool
from tests.kafka.authority import Authority
from tests.kafka.flows import Seen
from tests.kafka.records import eventually, produce, read_all
from tests.token_endpoint import TokenEndpoint, serving

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
#: What a file or the environment says as it is; no part of them is a word.
_KINDS = ("client", "trust-store", "key-store", "key", "registry", "notifier", "metrics", "database", "peer", "serve")
CANARIES = {kind: f"c4n4ry-{number}q7-of-{kind}" for number, kind in enumerate(_KINDS)}
#: Pages of Spark's UI while it works; the id of the application is in the braces.
_UI = ("/environment/", "/executors/", "/jobs/", "/stages/")
_UI_API = ("environment", "allexecutors", "jobs")
RUN_SECONDS = 240


@dataclass
class Sides:
    """``canaries`` are everything that nobody is to find, by name: also keys and tokens, which are made here."""

    source: LocalKafka
    target: LocalKafka
    endpoint: TokenEndpoint
    folder: Path
    canaries: dict[str, bytes] = field(default_factory=dict)

    def found_in(self, text: str | bytes) -> list[str]:
        data = text.encode() if isinstance(text, str) else text
        return [name for name, secret in list(self.canaries.items()) if secret in data]


@pytest.fixture(scope="module")
def sides(broker_jvm: BrokerJvm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """A source with tokens and TLS, and a target with mutual TLS."""
    folder = tmp_path_factory.mktemp("stores")
    authority = Authority(folder, "authority")
    canaries = {kind: text.encode() for kind, text in CANARIES.items()} | _stores(folder, authority)

    def token(number: int) -> str:
        """One that a broker without a validator of its own takes (RFC 7515, appendix A.5)."""
        now = int(time.time())
        claims = {"sub": "copier", "jti": f"{number}-{os.urandom(8).hex()}", "iat": now, "exp": now + 3600}
        parts = [
            base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in ({"alg": "none"}, claims)
        ]
        canaries[f"token {number}"] = parts[1].encode()
        return ".".join((*parts, ""))

    shown = tls_listener(authority.vouch_for("127.0.0.1"))
    tokens = {
        "listener.name.client.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.client.oauthbearer.sasl.jaas.config": f"{_MODULE} required unsecuredLoginStringClaim_sub=a;",
    }
    mutual = {
        "listener.name.client.ssl.truststore.type": "PEM",
        "listener.name.client.ssl.truststore.location": str(authority.pem),
        "listener.name.client.ssl.client.auth": "required",
    }
    both = (
        LocalKafka(name="source", client_protocol="SASL_SSL", settings=shown | tokens, jvm=broker_jvm),
        LocalKafka(name="target", client_protocol="SSL", settings=shown | mutual, jvm=broker_jvm),
    )
    with serving(token=token, secret=CANARIES["client"]) as endpoint:
        try:
            with ThreadPoolExecutor() as pool:
                list(pool.map(LocalKafka.start, both))
            yield Sides(*both, endpoint, folder, canaries)
        finally:
            for kafka in both:
                kafka.close()


def _stores(folder: Path, authority: Authority) -> dict[str, bytes]:
    """Our key and the authority as keytool keeps them; returns the key's number, and its lines as PEM."""
    own, stored = authority.vouch_for("copier"), folder / "copier.p12"
    passing = CANARIES["key-store"]
    subprocess.run(
        ["openssl", "pkcs12", "-export", "-in", own, "-out", stored, "-passout", f"pass:{passing}", "-name", "me"],
        check=True,
        capture_output=True,
    )
    keytool(
        *("-importkeystore", "-srckeystore", str(stored), "-srcstoretype", "PKCS12", "-srcstorepass", passing),
        *("-destkeystore", str(folder / "copier.jks"), "-deststoretype", "JKS", "-deststorepass", passing),
        *("-srcalias", "me", "-destkeypass", CANARIES["key"], "-noprompt"),
    )
    keytool(
        *("-importcert", "-noprompt", "-alias", "ca", "-file", str(authority.pem), "-storetype", "JKS"),
        *("-keystore", str(folder / "trust.jks"), "-storepass", CANARIES["trust-store"]),
    )
    text = read_java_store((folder / "copier.jks").read_bytes(), passing, CANARIES["key"]).key
    assert text is not None
    key = load_pem_private_key(text.encode(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    lines = [line.encode() for line in text.splitlines() if not line.startswith("-----")]
    assert len(lines) > 1
    number = key.private_numbers().private_value.to_bytes(32, "big")
    return {"number of the key": number} | {f"line {place} of the key": line for place, line in enumerate(lines)}


class _Watch:
    """Looks at a run until it ends: command lines and environments of all that it has started, its temporary files,
    and what Spark's UI shows."""

    def __init__(self, run: subprocess.Popen[str], temporary: Path, ui: int) -> None:
        self._run, self._temporary, self._ui = run, temporary, ui
        self._pool = ThreadPoolExecutor(1)
        self.seen: dict[str, str | bytes] = {}
        self.programs: set[str] = set()
        self.pages: set[str] = set()

    def __enter__(self) -> _Watch:
        self._looking = self._pool.submit(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        if self._run.poll() is None:
            self._run.kill()
        self._pool.shutdown()
        self._looking.result()

    @property
    def ended(self) -> bool:
        return self._looking.done()

    def _look(self) -> None:
        looks = itertools.count()
        while self._run.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in psutil.Process(self._run.pid).children(recursive=True):
                    self._look_at(process)
            self._look_at_files()
            # Pages cost the JVM more than the copies do. While it starts or ends, there is nobody to answer.
            if next(looks) % 20 == 0:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    self._look_at_ui()
            time.sleep(0.05)

    def _look_at(self, process: psutil.Process) -> None:
        with contextlib.suppress(psutil.Error), process.oneshot():  # it may have ended
            self.programs.add(process.name())
            words = process.cmdline()
            self.seen[f"command line of {process.pid}"] = " ".join(words)
            # Before it has become another program, it is the one that was started by hand.
            if words != self._run.args:
                self.seen[f"environment of {process.pid}, {process.name()}"] = str(process.environ())

    def _look_at_files(self) -> None:
        for path in self._temporary.rglob("*"):
            with contextlib.suppress(OSError):  # it may be gone
                # Libraries that the JVM unpacks are larger.
                if path.is_file() and path.stat().st_size < 1 << 18:
                    self.seen[f"temporary file {path}, as {path.stat().st_mtime_ns}"] = path.read_bytes()

    def _look_at_ui(self) -> None:
        applications = self._page("/api/v1/applications")
        paths = [
            *_UI,
            *(f"/api/v1/applications/{application['id']}/{part}" for application in applications for part in _UI_API),
        ]
        for path in paths:
            self._page(path)

    def _page(self, path: str) -> list[dict[str, object]]:
        """What of it is JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self._ui, timeout=20)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status != 200 or text.startswith("Spark is starting up"):
            return []
        self.pages.add(path.rpartition("/")[2] or path)
        self.seen[f"{path} at {time.time()}"] = text
        return list(json.loads(text)) if path == "/api/v1/applications" else []


def test_secrets_are_in_no_log_command_line_environment_file_page_or_topic(
    sides: Sides, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = sides.source, sides.target
    source.create_topic(name, 2)
    produce(source, name, 0, [Seen(b"k", b"v", (), int(time.time() * 1000))] * 300)
    before = time.time()
    configuration = _configuration(sides, tmp_path, name)
    places = {one: tmp_path / one for one in ("events", "conf", "temporary", "data")}
    for place in places.values():
        place.mkdir()
    port = ReservedPort()
    (places["conf"] / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.dir {places['events'].as_uri()}\n"
        f"spark.ui.enabled true\nspark.ui.port {port.number}\n"
    )
    environment = {
        **{one: value for one, value in os.environ.items() if not one.startswith(("PYSPARK", "SPARK"))},
        **_secret_environment(),
        "PYTHONPATH": str(ROOT),
        "SPARK_CONF_DIR": str(places["conf"]),
        "TMPDIR": str(places["temporary"]),
        "XDG_DATA_HOME": str(places["data"]),
    }

    def copied(watch: _Watch) -> bool:
        if watch.ended:
            return True  # what it has printed says more
        if not watch.pages >= {"environment", "allexecutors", "jobs", *_UI}:
            return False
        topics = target.admin().list_topics(timeout=60).topics
        return f"a.{name}" in topics and sum(map(len, read_all(target, f"a.{name}").values())) == 300

    seen: dict[str, str | bytes] = {}
    for program, code in (
        # Until it has copied all and been looked at; then it is interrupted.
        (("srm_common.cli.main", "run", "--max-seconds", "900"), 130),
        (("srm_common.spark_jobs.verify", "--against", "source", "--master", "local[2]"), 0),
    ):
        run = subprocess.Popen(
            [sys.executable, "-m", *program, "--config", str(configuration), "--flow", "a->b"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        with _Watch(run, places["temporary"], port.number) as watch:
            if code:
                eventually(partial(copied, watch), RUN_SECONDS, "no copies, or no UI")
                run.send_signal(signal.SIGTERM)
            output, _ = run.communicate(timeout=RUN_SECONDS)
        assert run.returncode == code, output
        assert {"java"} < watch.programs, "Spark has worked"
        seen |= {f"{program[0]}: {where}": text for where, text in watch.seen.items()}
        seen[f"{program[0]}: what was printed"] = output
    port.release()
    assert "a->b: no difference in 3 partitions" in output, output
    for words in ("config show", "config check", "config explain sasl.jaas.config"):
        with pytest.MonkeyPatch.context() as patch:
            for variable, value in _secret_environment().items():
                patch.setenv(variable, value)
            flow = () if words == "config check" else ("--flow", "a->b")
            srm_control(["--config", str(configuration), *words.split(), *flow])
            loaded = load_configuration(configuration)
            seen["configuration as text"] = f"{loaded!r} {loaded.flow('a->b')!r}"
        seen[words] = str(capsys.readouterr())
        assert "sasl.jaas.config" in seen[words] or words == "config check"

    # They are found where they are.
    assert sides.endpoint.asked, "tokens were asked for"
    assert set(sides.found_in(configuration.read_bytes())) == CANARIES.keys() - {"client", "serve"}
    assert len(sides.canaries) > len(CANARIES) + 3
    found = [f"{where}: {secrets}" for where, text in seen.items() if (secrets := sides.found_in(text))]
    for place in (*places.values(), source.directory, target.directory):
        for path in _files(place, before):
            found += [f"{path}: {secrets}" for secrets in [sides.found_in(path.read_bytes())] if secrets]
    assert any(places["events"].iterdir()), "Spark has kept an event log"
    for kafka in (source, target):
        for topic in kafka.admin().list_topics(timeout=60).topics:
            if not topic.startswith("__") and (secrets := sides.found_in(str(read_all(kafka, topic)))):
                found.append(f"{topic} of {kafka.name}: {secrets}")
    assert found == []


def _secret_environment() -> Mapping[str, str]:
    """What a file refers to, and what another program is given."""
    return {"CANARY_OF_THE_CLIENT": CANARIES["client"], "SRM_SERVE_PASSWORD": CANARIES["serve"]}


def _configuration(sides: Sides, folder: Path, topic: str) -> Path:
    properties: dict[str, object] = {
        "clusters": "a, b",
        "a.bootstrap.servers": sides.source.bootstrap_servers,
        "a.security.protocol": "SASL_SSL",
        "a.ssl.truststore.location": sides.folder / "authority.pem",
        "a.sasl.mechanism": "OAUTHBEARER",
        "a.sasl.oauthbearer.token.endpoint.url": sides.endpoint.url,
        "a.sasl.jaas.config": f'{_MODULE} required clientId="me" clientSecret="${{env:CANARY_OF_THE_CLIENT}}";',
        "a.schema.registry.url": f"http://copier:{CANARIES['registry']}@127.0.0.1:1",
        "b.bootstrap.servers": sides.target.bootstrap_servers,
        "b.security.protocol": "SSL",
        "b.ssl.truststore.location": sides.folder / "trust.jks",
        "b.ssl.truststore.password": CANARIES["trust-store"],
        "b.ssl.keystore.location": sides.folder / "copier.jks",
        "b.ssl.keystore.password": CANARIES["key-store"],
        "b.ssl.key.password": CANARIES["key"],
        "a->b.enabled": "true",
        "a->b.topics": topic,
        "tasks.max": 2,
        "replication.factor": -1,
        "spark.min.bytes": 0,
        "metrics.topic.enabled": "true",
        "metrics.prometheus.token": CANARIES["metrics"],
        # Nobody answers there; the run says so.
        "metrics.database.url": f"postgresql+psycopg2://srm:{CANARIES['database']}@127.0.0.1:1/srm",
        "service.peer.other.example.com.user": "srm",
        "service.peer.other.example.com.password": CANARIES["peer"],
        "alarm.notifiers": "chat",
        "alarm.notifier.chat.class": "airflow.providers.smtp.notifications.smtp.SmtpNotifier",
        "alarm.notifier.chat.webhook_url": f"https://chat.example.com/{CANARIES['notifier']}",
    }
    file = folder / "srm.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
    return file


def _files(folder: Path, since: float) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.stat().st_mtime >= since]
