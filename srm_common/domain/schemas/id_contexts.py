"""To which context of a registry the schema ids of a topic belong: each context has its own ids."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import IntEnum

from srm_common.domain.schemas.schemas import context_of, is_of_topic, named_after, originals_of, plain_name
from srm_common.domain.transforms.formats import Side


class Claim(IntEnum):
    """Why an id that a context has may be that of a topic's keys or values, the strongest reason first."""

    #: A subject of the topic has it.
    OWN = 0
    #: The topic is ``east.orders``, and a subject of ``orders`` in the context ``east`` has it.
    COPY = 1
    #: The topic may be a copy, and a subject of its original has it. In any context but the default one, this is no
    #: reason: part of a topic's name is easily that of another topic.
    ORIGINAL = 2
    #: Only other subjects have it, such as those of RecordNameStrategy, or of the topics of dead letters.
    OTHER = 3


def claim(subject: str, topic: str, side: Side) -> Claim:
    """Why an id of this subject may be one of the topic."""
    if _ties(subject, topic, side):
        return Claim.OWN
    context = context_of(subject)
    if any(_ties(subject, original, side) for before, original in originals_of(topic) if before == context):
        return Claim.COPY
    return Claim.ORIGINAL if is_of_topic(subject, topic, side) else Claim.OTHER


def is_certain(subjects: Collection[str], topic: str, side: Side) -> bool:
    """Whether no other context can have a better claim than the default one, as these are subjects of it: Confluent's
    clients, too, look in other contexts only for what a topic's subject does not have in the default one."""
    return any(not context_of(subject) and claim(subject, topic, side) is Claim.OWN for subject in subjects)


def contenders(subjects: Mapping[str, Collection[str]], topic: str, side: Side) -> list[str]:
    """The contexts to one of which an id of a topic belongs, the default one first; none if it belongs to none.

    Where no subject of the topic has it, it belongs to the default context, if that has it, since nothing connects the
    topic to any other. But if others have it as well, for no weaker reason, the topic's schemas may be there.

    Args:
        subjects: by context, those that have the id there.
    """
    claims = {context: min(claim(one, topic, side) for one in found) for context, found in subjects.items() if found}
    best = min(claims.values(), default=Claim.OTHER)
    if best > Claim.COPY:
        if "" not in claims:
            return []
        return sorted(context for context, found in claims.items() if found <= claims[""])
    if claims.get("") is Claim.OWN:
        return [""]
    return sorted(context for context, found in claims.items() if found is best)


def _ties(subject: str, topic: str, side: Side) -> bool:
    """Whether a subject is of no other topic: that of a record is followed by a name without hyphens. A topic
    ``orders-archive``, too, has subjects that begin with ``orders-``."""
    name = plain_name(subject)
    return named_after(subject, topic, side) and (name == f"{topic}-{side.prefix}" or "-" not in name[len(topic) + 1 :])
