"""Settings of topics that a cluster refuses, and what to ask for instead.

Managed clusters limit the settings of topics, and so may a policy of the brokers (``create.topic.policy.class.name``,
KIP-108; ``alter.config.policy.class.name``, KIP-133). A topic can do without most of what is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_MIB, _HOUR_MS = 1 << 20, 3_600_000
MAX_MESSAGE = "max.message.bytes"
#: The last ones that a topic does without; most others only make it quicker to read.
_MISSED_MOST = (MAX_MESSAGE, "message.timestamp.type")
#: The values nearest to ours that managed clusters take: Confluent Cloud, and MSK Serverless, which has the last only.
LIMITS: Mapping[str, int] = {
    "segment.bytes": 50 * _MIB,
    "segment.ms": 4 * _HOUR_MS,
    "max.compaction.lag.ms": 6 * _HOUR_MS,
    MAX_MESSAGE: 8 * _MIB,
}


def conceded(wishes: Mapping[str, str], refusal: str) -> dict[str, str]:
    """What to ask for after a cluster has refused ``wishes``: less each time, and nothing in the end.

    A setting is asked for once more with the value that managed clusters take, then no more.

    Args:
        refusal: the cluster's reason. Less is asked of the settings that it names; of all where it names none.
    """
    named = {key for key in wishes if _names(refusal, key)}
    if named:
        return {key: value for key in wishes if (value := _less(key, wishes[key]) if key in named else wishes[key])}
    limited = {key: _less(key, value) or value for key, value in wishes.items()}
    if limited != wishes:
        return limited
    last = {key: value for key, value in wishes.items() if key in _MISSED_MOST}
    return {} if last == wishes else last


def described(wishes: Mapping[str, str], given: Mapping[str, str]) -> str:
    """What a topic has instead of ``wishes``, where it is ``given`` less."""
    return ", ".join(
        f"with {key}={given[key]} instead of {value}" if key in given else f"without {key}={value}"
        for key, value in wishes.items()
        if given.get(key) != value
    )


def _names(text: str, key: str) -> bool:
    """Whether a text is about this setting, and not one whose name contains it."""
    return re.search(rf"(?<![\w.]){re.escape(key)}(?!\w|\.\w)", text) is not None


def _less(key: str, value: str) -> str | None:
    """The value to ask for instead; None for none."""
    limit = LIMITS.get(key)
    if limit is None or (int(value) <= limit if key == MAX_MESSAGE else int(value) >= limit):
        return None
    return str(limit)
