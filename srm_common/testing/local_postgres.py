"""A temporary PostgreSQL server: this machine's binaries, data in a folder that is removed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Self

from srm_common.errors import SrmError

_DEBIAN = Path("/usr/lib/postgresql")
_TIMEOUT_SECONDS = 120.0
#: Only the owner of the folder can reach the socket; the data does not have to survive a power cut.
_SETTINGS = ("listen_addresses=", "fsync=off", "full_page_writes=off", "synchronous_commit=off", "jit=off")


class LocalPostgres:
    """A server without a network address, reached by a socket in its folder. A context manager."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        # Sockets' paths must be short, and the server's user must be able to enter every folder above its data.
        self.folder = Path(tempfile.mkdtemp(prefix="srm-pg-", dir="/tmp"))
        # The server refuses to run as root.
        self._user = "nobody" if os.geteuid() == 0 else None

    @staticmethod
    def programs() -> Path | None:
        """Where this machine's newest server is installed, None when there is none."""
        debian = (folder / "bin" for folder in sorted(_DEBIAN.glob("*"), key=_version, reverse=True))
        found = shutil.which("initdb")
        candidates = [*debian, *([Path(found).resolve().parent] if found else [])]
        return next(
            (
                candidate
                for candidate in candidates
                if (candidate / "initdb").exists() and (candidate / "pg_ctl").exists()
            ),
            None,
        )

    def __enter__(self) -> Self:
        try:
            self._make()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def url(self, database: str = "postgres") -> str:
        """As SQLAlchemy writes it."""
        return f"postgresql+psycopg2://srm@/{database}?host={self.folder}"

    def start(self) -> None:
        options = " ".join(f"-c {setting}" for setting in _SETTINGS)
        log = str(self.folder / "server.log")
        self._run("pg_ctl", "start", "-w", "-D", self._data, "-l", log, "-o", f"{options} -k {self.folder}")

    def stop(self) -> None:
        """At once; connections are closed."""
        self._run("pg_ctl", "stop", "-w", "-D", self._data, "-m", "fast")

    def create(self, database: str) -> str:
        """A new database; returns its address."""
        self._run("createdb", "-h", str(self.folder), "-U", "srm", database)
        return self.url(database)

    def close(self) -> None:
        """Ends the server, if it runs, and removes its folder."""
        if (self.folder / "data" / "postmaster.pid").exists():
            self._run("pg_ctl", "stop", "-w", "-D", self._data, "-m", "immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def _make(self) -> None:
        if self._user is not None:
            entry = pwd.getpwnam(self._user)
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
        self._run("initdb", "-D", self._data, "-U", "srm", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")

    def _run(self, program: str, *arguments: str) -> None:
        group = None if self._user is None else pwd.getpwnam(self._user).pw_gid
        # Not a pipe: the server would hold it open after pg_ctl has ended.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [str(self._programs / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                user=self._user,
                group=group,
                extra_groups=None if self._user is None else (),
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
            if done.returncode != 0:
                output.seek(0)
                said = output.read().decode(errors="replace").strip()
                raise SrmError(f"PostgreSQL's {program} in {self._programs} failed: {said or done.returncode}")


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in folder.name.split("."))
