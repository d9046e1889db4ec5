"""The service as it listens: what it refuses to show a network, and TLS and logins on a real socket."""

from __future__ import annotations

import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import Request

from srm_common.errors import ConfigError
from srm_common.rest.faults import ApiError
from srm_common.rest.serving.logins import BasicAccess, OpenAccess
from srm_common.rest.serving.service import Listener, access_of
from srm_common.testing.ports import ReservedPort

LOGIN = {"SRM_SERVE_USER": "ann", "SRM_SERVE_PASSWORD": "sesame"}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 127.0.0.1, with its key beside it in key.pem."""
    return made_certificate(tmp_path_factory.mktemp("tls"))


def made_certificate(folder: Path) -> Path:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-keyout", "key.pem", "-out", "cert.pem", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-passout", "pass:hush"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return folder / "cert.pem"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.3.4.5"])
def test_on_this_machine_nothing_is_demanded(host: str) -> None:
    assert isinstance(access_of(Listener(host), None, {}), OpenAccess)
    assert isinstance(access_of(Listener(host), None, LOGIN), BasicAccess)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "srm.example", ""])
def test_others_are_let_in_with_logins_and_tls_only(host: str, certificate: Path) -> None:
    key = certificate.with_name("key.pem")
    with pytest.raises(ConfigError, match=r"no logins .* and no TLS .*--insecure"):
        access_of(Listener(host), None, {})
    with pytest.raises(ConfigError, match="no TLS"):
        access_of(Listener(host), None, LOGIN)
    with pytest.raises(ConfigError, match="no logins"):
        access_of(Listener(host, 0, certificate, key, "hush"), None, {})
    assert isinstance(access_of(Listener(host, 0, certificate, key, "hush"), None, LOGIN), BasicAccess)
    assert isinstance(access_of(Listener(host, insecure=True), None, {}), OpenAccess)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_a_proxy_beside_the_service_passes_on_its_own_name(host: str) -> None:
    request = Request({"type": "http", "headers": [(b"host", b"srm.example.com")]})
    assert access_of(Listener(host, insecure=True), None, {}).caller(request).name == "anybody"
    with pytest.raises(ApiError, match=r"only available on localhost; .* --insecure"):
        access_of(Listener(), None, {}).caller(request)


@pytest.mark.parametrize("password", [None, "", "wrong"])
def test_a_key_that_does_not_open_is_named(certificate: Path, password: str | None) -> None:
    key = certificate.with_name("key.pem")
    with pytest.raises(ConfigError, match=r"cert\.pem.*key\.pem cannot be used.*SRM_SERVE_TLS_KEY_PASSWORD"):
        access_of(Listener("127.0.0.1", 0, certificate, key, password), None, {})


def test_a_key_alone_and_a_certificate_without_one(certificate: Path) -> None:
    with pytest.raises(ConfigError, match="--tls-cert"):
        access_of(Listener(key=certificate), None, {})
    with pytest.raises(ConfigError, match=r"cert\.pem cannot be used"):
        access_of(Listener(certificate=certificate), None, {})


def test_a_port_that_is_taken_is_one_sentence() -> None:
    port = ReservedPort()
    taken = Listener(port=port.number).open()
    taken.listen()
    with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1, port {port.number}: "):
        Listener(port=port.number).open()
    taken.close()
    port.release()


def test_addresses_are_written_as_browsers_take_them(certificate: Path) -> None:
    assert Listener("::1", 80).url == "http://[::1]:80"
    assert Listener("10.0.0.5", 443, certificate).url == "https://10.0.0.5:443"


@pytest.fixture
def served_certificate(tmp_path: Path, certificate: Path) -> Path:
    """A copy, which a test may renew."""
    for file in (certificate, certificate.with_name("key.pem")):
        shutil.copy(file, tmp_path)
    return tmp_path / "cert.pem"


@pytest.fixture
def service(tmp_path: Path, served_certificate: Path) -> Iterator[str]:
    """``srm-control serve`` with TLS, a login, and others in the file ``logins``; its address."""
    file = tmp_path / "srm.properties"
    file.write_text(
        "clusters = a, b\na.bootstrap.servers = localhost:1\nb.bootstrap.servers = localhost:1\na->b.enabled = true\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SRM_", "AIRFLOW"))}
    environment |= LOGIN | {"SRM_SERVE_TLS_KEY_PASSWORD": "hush", "SRM_DATABASE": f"sqlite:///{tmp_path}/metrics.db"}
    command = [sys.executable, "-m", "srm_common.cli.main", "serve", "--config", str(file), "--port", "0"]
    logins = tmp_path / "logins"
    logins.write_text("vera:viewer:opened\n")
    command += [
        "--password-file",
        str(logins),
        "--tls-cert",
        str(served_certificate),
        "--tls-key",
        str(served_certificate.with_name("key.pem")),
    ]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if found := re.search(r"serving on (https://127\.0\.0\.1:\d+)", line):
                break
        else:
            pytest.fail(said)
        yield found[1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == 0, process.stderr.read()


def test_it_answers_over_tls_to_those_it_knows(
    service: str, served_certificate: Path, certificate: Path, tmp_path: Path
) -> None:
    trusting = ssl.create_default_context(cafile=certificate)

    def status(path: str, login: str | None = None, **headers: str) -> int:
        request = urllib.request.Request(service + path, headers=headers)
        if login is not None:
            request.add_header("Authorization", "Basic " + b64encode(login.encode()).decode())
        try:
            with urllib.request.urlopen(request, context=trusting, timeout=120) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code

    assert status("/api/v2/flows") == 401
    assert status("/api/v2/flows", "ann:wrong") == 401
    assert status("/api/v2/flows", "ann:sesame") == 200
    assert status("/api/v2/flows/a/c", "ann:sesame") == 404
    assert status("/api/v2/flows", "vera:opened") == 200
    (tmp_path / "logins").write_text("vera:viewer:changed since\n")
    assert status("/api/v2/flows", "vera:opened") == 401
    assert status("/api/v2/flows", "vera:changed since") == 200
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(service, timeout=120)

    # A certificate that is renewed counts from the next connection on, once its key is there, too.
    (tmp_path / "renewed").mkdir()
    renewed = made_certificate(tmp_path / "renewed")
    renewed.replace(served_certificate)
    assert status("/api/v2/flows", "ann:sesame") == 200, "that of before, while the new one has no key"
    renewed.with_name("key.pem").replace(served_certificate.with_name("key.pem"))
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        status("/api/v2/flows", "ann:sesame")
    trusting = ssl.create_default_context(cafile=served_certificate)
    assert status("/api/v2/flows", "ann:sesame") == 200
