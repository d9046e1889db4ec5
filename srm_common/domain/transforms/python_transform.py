"""A function of the user's among a flow's transforms, as configured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PythonTransform:
    """``path``: ``package.module:function``; ``timeout_seconds``: how long a call may take."""

    path: str
    timeout_seconds: float
