"""The configuration file, read anew when it has changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from srm_common.errors import ConfigError
from srm_common.settings_files.configuration import Configuration, load_configuration
from srm_common.settings_files.configuration_files import configuration_files

#: What a file names besides itself, such as Airflow connections and files with passwords, may change without it.
_OLDEST_SECONDS = 30.0

#: Path, time of change (ns) and size of each file.
_Stamp = tuple[tuple[str, int, int], ...]


class WatchedConfiguration:
    """Called, it gives the configuration of ``path``, which is asked for each time, as the file may be missing yet."""

    def __init__(self, path: Callable[[], Path], load: Callable[[Path], Configuration] = load_configuration) -> None:
        self._path = path
        self._load = load
        self._lock = threading.Lock()
        self._found: tuple[_Stamp, float, Configuration] | None = None

    def __call__(self) -> Configuration:
        """Raises :class:`ConfigError`."""
        path = self._path()
        stamp = _stamp(path)
        with self._lock:
            if self._found is not None:
                before, read_at, configuration = self._found
                if before == stamp and time.monotonic() - read_at < _OLDEST_SECONDS:
                    return configuration
            configuration = self._load(path)
            self._found = (stamp, time.monotonic(), configuration)
            return configuration


def _stamp(path: Path) -> _Stamp:
    stamps = []
    for file in configuration_files(path):
        try:
            about = file.stat()
        except OSError as error:
            raise ConfigError(f"the file cannot be read: {error.strerror}", file=str(file)) from error
        stamps.append((str(file), about.st_mtime_ns, about.st_size))
    return tuple(stamps)
