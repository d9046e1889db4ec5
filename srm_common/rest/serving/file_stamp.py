"""By what a file that was written again is known."""

from __future__ import annotations

from pathlib import Path

#: Inode, time of change (ns) and size.
Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp | None:
    """None where there is no file, or it may not be looked at; reading it says why."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns, about.st_size
