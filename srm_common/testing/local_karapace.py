"""Karapace, Aiven's schema registry, on this machine, with its schemas in a topic of a broker.

    with LocalKarapace(LocalKarapace.python(), kafka.bootstrap_servers) as karapace:
        ...  # any client, karapace.url

Karapace is on no Python package index and needs an environment of its own; ``$SRM_KARAPACE`` names that environment's
interpreter.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from srm_common.errors import LocalKafkaError
from srm_common.testing.java import LocalProcess
from srm_common.testing.local_server import LocalServer
from srm_common.testing.ports import LOOPBACK, ReservedPort

_VARIABLE = "SRM_KARAPACE"
_START_TIMEOUT_SECONDS = 120.0
#: As ``karapace.core.auth.hash_password`` has it for ``sha512``.
_ROUNDS = 5000


class LocalKarapace(LocalServer):
    """One registry, ready when it may write. A context manager.

    Args:
        python: the interpreter of an environment with Karapace.
        bootstrap_servers: the cluster with its topic, reached without a login.
        topic: where it keeps its schemas; registries that share one have the same schemas.
        logins: passwords by user, each of whom may do everything; without logins, everybody may.
        settings: Karapace's own, such as ``compatibility``.
    """

    def __init__(
        self,
        python: Path,
        bootstrap_servers: str,
        *,
        topic: str = "_schemas",
        logins: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="srm-karapace-"))
        self._port = ReservedPort()
        self._python = python
        self._process: LocalProcess | None = None
        own = {
            "bootstrap_uri": bootstrap_servers,
            "topic_name": topic,
            # Registries with one topic elect one of them; others must not take part.
            "group_id": f"karapace-{topic}",
            "host": LOOPBACK,
            "port": str(self._port.number),
            "advertised_hostname": LOOPBACK,
            "karapace_registry": "true",
            "log_level": "WARNING",
            "waiting_time_before_acting_as_master_ms": "0",
        }
        if logins:
            own["registry_authfile"] = str(self._write_logins(logins))
        self._settings = own | dict(settings or {})

    @staticmethod
    def python() -> Path | None:
        """The interpreter that ``$SRM_KARAPACE`` names, None where it names none.

        Raises:
            LocalKafkaError: it has no Karapace.
        """
        named = os.environ.get(_VARIABLE)
        if not named:
            return None
        # Isolated, as Karapace is started: modules in the current folder do not count.
        command = [named, "-I", "-c", "import importlib.util as u, sys; sys.exit(u.find_spec('karapace') is None)"]
        try:
            process = subprocess.run(command, capture_output=True, text=True, timeout=_START_TIMEOUT_SECONDS)
        except OSError as error:
            raise LocalKafkaError(f"${_VARIABLE} is {named}, which cannot be run: {error.strerror}") from error
        if process.returncode:
            raise LocalKafkaError(f"${_VARIABLE} is {named}, which has no package karapace: install it there")
        return Path(named)

    @property
    def url(self) -> str:
        return f"http://{self._port.address}"

    def start(self) -> Self:
        environment = {name: one for name, one in os.environ.items() if not name.upper().startswith("KARAPACE_")}
        environment |= {f"KARAPACE_{name.upper()}": one for name, one in self._settings.items()}
        self._process = LocalProcess(
            [str(self._python), "-I", "-m", "karapace"], output=self.directory / "karapace.log", environment=environment
        )
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        while not self._ready():
            if not self._process.running:
                raise LocalKafkaError(f"Karapace ended while starting:\n{self._process.tail()}")
            if time.monotonic() > deadline:
                raise LocalKafkaError(f"Karapace is not ready in time; see {self._process.output}")
            time.sleep(0.1)
        return self

    def close(self, *, failed: bool = False) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None
        self._port.release()
        if failed:
            print(f"the log of Karapace is kept in {self.directory}", file=sys.stderr)
        else:
            shutil.rmtree(self.directory, ignore_errors=True)

    def pause(self) -> None:
        """It no longer answers; connections to it are still taken."""
        assert self._process is not None
        self._process.pause()

    def resume(self) -> None:
        assert self._process is not None
        self._process.resume()

    def _ready(self) -> bool:
        with (
            suppress(OSError, http.client.HTTPException, ValueError, KeyError),
            urllib.request.urlopen(f"{self.url}/_health", timeout=10) as answer,
        ):
            status = json.loads(answer.read())["status"]
            return bool(status["schema_registry_ready"] and status["schema_registry_is_primary"])
        return False

    def _write_logins(self, logins: Mapping[str, str]) -> Path:
        file = self.directory / "logins.json"
        users = []
        for user, password in logins.items():
            salt = secrets.token_urlsafe(16)
            hashed = hashlib.pbkdf2_hmac("sha512", password.encode(), salt.encode(), _ROUNDS)
            users.append(
                {
                    "username": user,
                    "algorithm": "sha512",
                    "salt": salt,
                    "password_hash": base64.b64encode(hashed).decode(),
                }
            )
        permissions = [{"username": user, "operation": "Write", "resource": ".*"} for user in logins]
        file.write_text(json.dumps({"users": users, "permissions": permissions}))
        return file
