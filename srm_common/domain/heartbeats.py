"""Heartbeats: proof that a flow is alive, one record per beat."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The flow ``source->target`` was alive at ``timestamp_ms`` (epoch milliseconds)."""

    source: str
    target: str
    timestamp_ms: int
