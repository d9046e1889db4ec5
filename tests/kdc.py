"""A Kerberos key distribution centre (MIT's) on a free port of loopback, with principals made by tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from srm_common.testing.ports import ReservedPort

REALM = "SRM.TEST"
_PROGRAMS = ("krb5kdc", "kadmin.local", "kdb5_util", "kinit")
_START_SECONDS = 30.0


def missing() -> str:
    """What the tests with Kerberos lack here; empty where they can run."""
    lacking = [name for name in _PROGRAMS if _program(name) is None]
    try:
        import gssapi  # noqa: F401
    except ImportError:
        lacking.append("the Python package gssapi")
    return f"no {', '.join(lacking)}; scripts/setup.sh --tests" if lacking else ""


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


needs_kerberos = pytest.mark.skipif(bool(missing()), reason=missing())


class LocalKdc:
    """A realm of its own; a context manager.

    Whoever asks it needs ``environment`` (Java: ``java_option``).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._port = ReservedPort()
        self.port = self._port.number
        self._process: subprocess.Popen[bytes] | None = None
        self.config = folder / "krb5.conf"
        self._profile = folder / "kdc.conf"

    @property
    def environment(self) -> dict[str, str]:
        """For clients."""
        return {"KRB5_CONFIG": str(self.config)}

    @property
    def java_option(self) -> str:
        """The same for a JVM."""
        return f"-Djava.security.krb5.conf={self.config}"

    def __enter__(self) -> Self:
        self.config.write_text(
            f"""[libdefaults]
default_realm = {REALM}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[logging]
kdc = FILE:{self.folder}/kdc.log
[realms]
{REALM} = {{
    kdc = 127.0.0.1:{self.port}
}}
"""
        )
        self._profile.write_text(
            f"""[kdcdefaults]
kdc_listen = ""
kdc_tcp_listen = 127.0.0.1:{self.port}
[realms]
{REALM} = {{
    database_name = {self.folder}/principal
    key_stash_file = {self.folder}/stash
    acl_file = {self.folder}/kadm5.acl
    max_life = 10h
    max_renewable_life = 1d
}}
"""
        )
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "a-master-key")
        self.start()
        return self

    def start(self) -> None:
        """Start it, the first time or after :meth:`stop`."""
        program = _program("krb5kdc")
        assert program is not None
        path = self.folder / "kdc.log"
        log = path.open("ab")
        begins = path.stat().st_size
        self._process = subprocess.Popen([program, "-n"], env=self._own_environment(), stdout=log, stderr=log)
        deadline = time.monotonic() + _START_SECONDS
        while b"commencing operation" not in path.read_bytes()[begins:]:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(path.read_text())
            time.sleep(0.05)

    def stop(self) -> None:
        """End it; its principals stay."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
            self._process = None

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
        self._port.release()

    def keytab(self, principal: str, *, tickets: str = "10h") -> Path:
        """A keytab for a principal, which is made when there is none, and whose tickets last so long at most; the keys
        of an older one count no longer."""
        self._run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey -maxlife {tickets} {principal}")
        path = self.folder / f"{principal.replace('/', '_')}.keytab"
        path.unlink(missing_ok=True)
        self._run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {path} {principal}")
        return path

    def logins(self, principal: str) -> int:
        """How many tickets for tickets it has given to a principal."""
        return sum(
            "AS_REQ" in line and "ISSUE" in line and f" {principal}@{REALM} for krbtgt/" in line
            for line in (self.folder / "kdc.log").read_text().splitlines()
        )

    def remove(self, principal: str) -> None:
        """Remove a principal: nobody logs in as it any more."""
        self._run("kadmin.local", "-r", REALM, "-q", f"delprinc -force {principal}")

    def ticket_cache(self, principal: str, keytab: Path, path: Path, *, lifetime: str = "10h") -> Path:
        """Fill a ticket cache, as a user's or another program's ``kinit`` does."""
        self._run("kinit", "-c", f"FILE:{path}", "-l", lifetime, "-kt", str(keytab), f"{principal}@{REALM}")
        return path

    def _own_environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment, "KRB5_KDC_PROFILE": str(self._profile)}

    def _run(self, name: str, *arguments: str) -> None:
        program = _program(name)
        assert program is not None
        done = subprocess.run([program, *arguments], env=self._own_environment(), capture_output=True, text=True)
        assert done.returncode == 0, f"{name} {arguments[0]}: {done.stdout}{done.stderr}"
