"""What managed clusters take of the settings of topics, as policies of a fake cluster."""

from __future__ import annotations

from collections.abc import Mapping

_LEAST = {"segment.bytes": 52_428_800, "segment.ms": 14_400_000, "max.compaction.lag.ms": 21_600_000}
_LARGEST_RECORD = 8_388_608
_SERVERLESS = frozenset(
    {"cleanup.policy", "compression.type", "max.message.bytes", "retention.bytes", "retention.ms"}
    | {"message.timestamp.difference.max.ms", "message.timestamp.type"}
)


def confluent_cloud(settings: Mapping[str, str]) -> str | None:
    """Limits, one at a time, in its words."""
    for key, value in settings.items():
        begin, least = f"Config property '{key}' with value '{value}'", _LEAST.get(key, 0)
        if least and int(value) < least:
            return f"{begin} is lower than the minimum allowed value of {least}."
        if key == "max.message.bytes" and int(value) > _LARGEST_RECORD:
            return f"{begin} exceeded max limit of {_LARGEST_RECORD}."
    return None


def msk_serverless(settings: Mapping[str, str]) -> str | None:
    """A list of settings; an answer that names none."""
    if settings.keys() <= _SERVERLESS and int(settings.get("max.message.bytes", 0)) <= _LARGEST_RECORD:
        return None
    return "Request parameters do not satisfy the configured policy."


def cleanup_alone(settings: Mapping[str, str]) -> str | None:
    """The cleanup policy and nothing else."""
    others = sorted(settings.keys() - {"cleanup.policy"})
    return f"only cleanup.policy may be set, not {', '.join(others)}" if others else None
