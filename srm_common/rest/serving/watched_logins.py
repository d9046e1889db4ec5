"""The logins of a password file, read anew when it has changed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from pathlib import Path

from srm_common.errors import ConfigError
from srm_common.rest.serving.file_stamp import stamp
from srm_common.rest.serving.logins import Login, Logins, read_logins

_LOG = logging.getLogger(__name__)


class WatchedLogins:
    """Those of ``path`` as it is now, and ``others``.

    A file that cannot be used any more changes nothing: a slip of the pen must not lock everybody out. The log says so.

    Raises:
        ConfigError: it cannot be used at the start.
    """

    def __init__(self, path: Path, others: Collection[Login] = ()) -> None:
        self._path = path
        self._others = tuple(others)
        self._lock = threading.Lock()
        self._stamp = stamp(path)
        self._logins = self._read()

    def find(self, name: str, password: str) -> Login | None:
        """The login, when the password is right."""
        return self._now().find(name, password)

    def _now(self) -> Logins:
        with self._lock:
            # The stamp first: what is written while the file is read is read with the next request.
            now = stamp(self._path)
            if now != self._stamp:
                self._stamp = now
                try:
                    self._logins = self._read()
                except ConfigError as error:
                    _LOG.error("%s; the logins from before go on to count", error)
            return self._logins

    def _read(self) -> Logins:
        return Logins([*self._others, *read_logins(self._path)])
