"""Files that are reloaded when they change: the configuration, and the certificate of the service."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path

from srm_common.errors import ConfigError
from srm_common.settings_files.configuration import Configuration, load_configuration
from srm_common.settings_files.sources.configuration_files import configuration_files

#: Inode, time of change (ns) and size.
Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp | None:
    """None where there is no file, or no access to it; reading it says why."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns, about.st_size


_LOG = logging.getLogger(__name__)


class WatchedCertificate:
    """``current`` is the TLS context by the certificate's files as they are now; open connections keep the one that
    they began with. ``load`` makes a context, or raises OSError (``ssl.SSLError`` is one).

    Files that cannot be used, such as a certificate whose key is not written yet, change nothing, and are tried again
    after their next change. The log says so.
    """

    def __init__(self, files: tuple[Path, ...], load: Callable[[], ssl.SSLContext]) -> None:
        self._files = files
        self._load = load
        self._lock = threading.Lock()
        self._stamps = self._look()
        self._context = load()

    def current(self) -> ssl.SSLContext:
        with self._lock:
            # The stamps first: what is written while the files are read is read the next time.
            stamps = self._look()
            if stamps != self._stamps:
                self._stamps = stamps
                try:
                    self._context = self._load()
                    _LOG.warning("the certificate %s is read again", self._files[0])
                except OSError as error:
                    _LOG.error(
                        "the certificate %s cannot be used: %s; the previous one stays in effect",
                        *(self._files[0], error.strerror or error),
                    )
            return self._context

    def listening(self) -> ssl.SSLContext:
        """For the server's socket: each handshake continues with what is current."""
        first = self.current()

        def choose(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> None:
            connection.context = self.current()

        first.sni_callback = choose
        return first

    def _look(self) -> tuple[Stamp | None, ...]:
        return tuple(stamp(file) for file in self._files)


#: What a file refers to, such as Airflow connections and files with passwords, may change without it.
_OLDEST_SECONDS = 30.0

#: Path, time of change (ns) and size of each file.
_Stamps = tuple[tuple[str, int, int], ...]


class WatchedConfiguration:
    """Called, it returns the configuration of ``path``, which is called each time, since the file may not exist yet."""

    def __init__(self, path: Callable[[], Path], load: Callable[[Path], Configuration] = load_configuration) -> None:
        self._path = path
        self._load = load
        self._lock = threading.Lock()
        self._found: tuple[_Stamps, float, Configuration] | None = None

    def __call__(self) -> Configuration:
        """Raises :class:`ConfigError`."""
        path = self._path()
        stamp = _stamps(path)
        found = self._current(stamp)
        # Where only what the files refer to may have changed, one request looks, and the others need not wait.
        if not self._lock.acquire(blocking=found is None):
            assert found is not None
            return found[0]
        try:
            found = self._current(stamp)
            if found is not None and found[1]:
                return found[0]
            configuration = self._load(path).complete()
            self._found = (stamp, time.monotonic(), configuration)
            return configuration
        finally:
            self._lock.release()

    def _current(self, stamp: _Stamps) -> tuple[Configuration, bool] | None:
        """The configuration of the files as they are, and whether it was read lately."""
        if self._found is None:
            return None
        before, read_at, configuration = self._found
        return (configuration, time.monotonic() - read_at < _OLDEST_SECONDS) if before == stamp else None


def _stamps(path: Path) -> _Stamps:
    stamps = []
    for file in configuration_files(path):
        try:
            about = file.stat()
        except OSError as error:
            raise ConfigError(f"the file cannot be read: {error.strerror}", file=str(file)) from error
        stamps.append((str(file), about.st_mtime_ns, about.st_size))
    return tuple(stamps)
