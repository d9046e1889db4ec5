"""Finds the context of a registry to which a schema id of a topic belongs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from srm_common.domain.schemas.id_contexts import contenders, is_certain
from srm_common.domain.schemas.schemas import context_of, named_after, originals_of, qualified
from srm_common.domain.transforms.formats import Side
from srm_common.errors import RegistryError
from srm_common.schema_registry.registry import SchemaRegistry

#: How long a list of contexts, or of the subjects of a topic, is used.
_LISTED_SECONDS = 60.0


class FoundId(NamedTuple):
    """A schema id with its context, and the subjects and versions that have it there."""

    context: str
    places: list[tuple[str, int]]


class IdContexts:
    """The contexts of the ids of one registry. Not thread-safe, and remembers nothing of single ids.

    If the registry's address names a context, all ids belong to it. Otherwise they belong to the default context,
    unless a subject of the topic has the id in another one only, as for Confluent's deserializers. Where these take the
    first context of several, or the default one for want of any sign, an id that is a different schema in each of them
    is refused. A registry without contexts gets no request that it refuses.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, registry: SchemaRegistry, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._registry = registry
        self._clock = clock
        self._contexts: list[str] = []
        self._listed_until = 0.0
        #: Contexts of the subjects of topics, and until when they are used.
        self._topics: dict[tuple[str, Side], tuple[float, list[str]]] = {}
        #: Whether the registry has contexts; None if that is not known yet.
        self._has_contexts: bool | None = None

    def find(self, number: int, topic: str, side: Side) -> FoundId | None:
        """The context of an id that keys or values of a topic have; None if the registry has no schema for it.

        Raises:
            RegistryError: the registry does not answer, or the id is of different schemas, and nothing tells which.
        """
        named = self._registry.context
        if named is not None:
            return self._found(number, named, self._registry.places_of(number, qualified(named, "")))
        places = self._asked_by_subject(number, topic, side)
        subjects = {context: _subjects(places) for context in {context_of(subject) for subject, _ in places}}
        if is_certain(subjects.get("", ()), topic, side):
            return FoundId("", places)
        others = self._others(number, places) if places else self._of_topic(topic, side)
        if not others:
            return self._found(number, "", places)
        held = {context: places for context in subjects}
        for context in others:
            if context not in held:
                held[context] = self._registry.places_of(number, qualified(context, ""))
        found = contenders({context: _subjects(there) for context, there in held.items()}, topic, side)
        if not found:
            return None
        if len(found) > 1:
            self._check_same(number, topic, side, found)
        return FoundId(found[0], held[found[0]])

    def _found(self, number: int, context: str, places: list[tuple[str, int]]) -> FoundId | None:
        """Registries before 5.5 have no list of the subjects of an id."""
        if not places and self._registry.by_id(number, context) is None:
            return None
        return FoundId(context, places)

    def _asked_by_subject(self, number: int, topic: str, side: Side) -> list[tuple[str, int]]:
        """Subjects that have the id, all of one context: the default one, or that of a subject of the topic, or the
        one that has the name of the cluster of which the topic may be a copy."""
        for within in (
            f"{topic}-{side.prefix}",
            *(qualified(before, "") for before, _ in originals_of(topic) if before),
        ):
            places = self._registry.places_of(number, within)
            if places:
                return places
        return []

    def _others(self, number: int, places: list[tuple[str, int]]) -> list[str]:
        """All contexts, the default one, too; none if the registry has no contexts. The name of a subject tells nothing
        about that: in a registry without contexts, one is part of the name."""
        if self._has_contexts is not False and self._clock() >= self._listed_until:
            others = self._registry.other_contexts(number)
            self._has_contexts = others is not None
            self._contexts = [] if others is None else ["", *others]
            self._listed_until = self._clock() + _LISTED_SECONDS
        return self._contexts

    def _of_topic(self, topic: str, side: Side) -> list[str]:
        """Other contexts in which the topic has subjects. For an id that the default context does not have, no others
        matter. What is no id at all may look like very many, so this does not depend on it."""
        until, contexts = self._topics.get((topic, side), (0.0, []))
        if self._has_contexts is not False and self._clock() >= until:
            found = self._registry.subjects_beginning(topic)
            contexts = sorted({context_of(subject) for subject in found if named_after(subject, topic, side)} - {""})
            self._topics[topic, side] = self._clock() + _LISTED_SECONDS, contexts
        return contexts

    def _check_same(self, number: int, topic: str, side: Side, contexts: list[str]) -> None:
        schemas = [_meaning(self._registry.by_id(number, context) or {}) for context in contexts]
        if all(schema == schemas[0] for schema in schemas):
            return
        alias = self._registry.alias
        names = " and ".join(f".{context}" for context in contexts)
        raise RegistryError(
            f"the {side.prefix}s of {topic} may have it from context {names} of the schema registry of {alias}, where "
            f"it is of different schemas; name the right one in {alias}.schema.registry.url, as "
            f"/contexts/.{contexts[-1]} at its end ('.' is the default context)"
        )


def _subjects(places: list[tuple[str, int]]) -> list[str]:
    return [subject for subject, _ in places]


def _meaning(body: dict[str, Any]) -> list[Any]:
    """The same for the same schema. References without a context are the same, too, in contexts that are copies."""
    text = body.get("schema")
    with suppress(ValueError, RecursionError):
        text = json.loads(str(text))
    return [text, body.get("schemaType") or "AVRO", body.get("references") or []]
