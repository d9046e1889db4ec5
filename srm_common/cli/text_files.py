"""Text files that a command reads or writes: what goes wrong is one sentence."""

from __future__ import annotations

from pathlib import Path

from srm_common.errors import ConfigError


def read_text(path: Path, what: str) -> str:
    """Without a byte order mark, which spreadsheets write. Raises :class:`ConfigError`."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"the {what} cannot be read: {error.strerror}", file=str(path)) from error
    except UnicodeDecodeError as error:
        reason = f"{error.reason} at byte {error.start}"
        raise ConfigError(f"the {what} is not UTF-8 text: {reason}", file=str(path)) from error


def write_text(path: Path, text: str, what: str) -> None:
    """Replaces the file. Raises :class:`ConfigError`."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritable(path, what, error) from error


def check_writable(path: Path, what: str) -> None:
    """For long work with a file at its end: raises :class:`ConfigError` now if that cannot be written."""
    file = path.resolve()  # a link stays, whether the file behind it exists or not
    exists = file.exists()
    if exists and not (file.is_file() or file.is_dir()):
        return  # a pipe, whose reader would take the close for the end
    try:
        file.open("a", encoding="utf-8").close()
        if not exists:
            file.unlink()
    except OSError as error:
        raise _unwritable(path, what, error) from error


def _unwritable(path: Path, what: str, error: OSError) -> ConfigError:
    return ConfigError(f"the {what} cannot be written: {error.strerror}", file=str(path))
