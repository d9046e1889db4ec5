"""Ids of topics (KIP-516): by which a topic is told from one of the same name that was created later.

Clients spell them in one of the two alphabets of base64. A cluster gives none before its
``inter.broker.protocol.version`` is 2.8, whatever version its brokers are.
"""

from __future__ import annotations

#: The id of a topic that has none, or does not exist yet.
NO_TOPIC_ID = ""
#: Kafka's ``Uuid.ZERO_UUID``, with which brokers answer that a topic has none.
_ZERO = "A" * 22


def known_topic_id(spelled: str) -> str:
    """An id as a client gives it; NO_TOPIC_ID for zero."""
    return NO_TOPIC_ID if spelled == _ZERO else spelled


def url_safe(topic_id: str) -> str:
    """An id in the alphabet of Kafka's ``Uuid``."""
    return topic_id.replace("+", "-").replace("/", "_")


def is_another_topic(recorded: str | None, found: str | None) -> bool:
    """Whether both ids are known, and differ; an unknown one (None or NO_TOPIC_ID) is taken for the same topic."""
    return bool(recorded and found) and recorded != found
