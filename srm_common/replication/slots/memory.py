"""Peak memory of this process."""

from __future__ import annotations

import resource
from pathlib import Path

_STATUS = Path("/proc/self/status")
_PEAK = "VmHWM:"


def peak_rss_bytes() -> int:
    """The largest resident set so far.

    Linux's ``ru_maxrss`` survives ``exec`` and so may be the parent's; ``VmHWM`` is this program's own.
    """
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            if line.startswith(_PEAK):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
