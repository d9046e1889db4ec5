"""Schemas as registries with Confluent's API hold them: versions of subjects, with references and ids."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

from srm_common.domain.patterns.name_filter import NameFilter
from srm_common.domain.transforms.formats import Side

#: What a qualified subject begins with: ``:.east:orders-value`` (Confluent's ``QualifiedSubject``).
_CONTEXT_PREFIX = ":."
#: What may stand before the name of the original in that of a copy.
_SEPARATOR = re.compile(r"[._-]")
#: What the subjects of TopicNameStrategy end with.
_OF_TOPICS = tuple(f"-{side.prefix}" for side in Side)


def context_of(subject: str) -> str:
    """The context of a subject without its dot, ``east`` of ``:.east:orders-value``; empty for the default context."""
    if not subject.startswith(_CONTEXT_PREFIX):
        return ""
    return subject[len(_CONTEXT_PREFIX) :].partition(":")[0]


def plain_name(subject: str) -> str:
    """A subject without its context."""
    if not subject.startswith(_CONTEXT_PREFIX):
        return subject
    return subject[len(_CONTEXT_PREFIX) :].partition(":")[2]


def qualified(context: str, name: str) -> str:
    """The subject ``name`` of a context; an empty name stands for the context as a whole."""
    return f"{_CONTEXT_PREFIX}{context}:{name}" if context else name


def is_of_topic(subject: str, topic: str, side: Side) -> bool:
    """Whether Confluent's TopicNameStrategy or TopicRecordNameStrategy gives keys or values of a topic this subject, in
    any context. The copies of another flow have the subject of their original: ``orders-value`` is one of the topic
    ``east.orders``, too."""
    return named_after(subject, topic, side) or any(
        named_after(subject, original, side) for _, original in originals_of(topic)
    )


def named_after(subject: str, topic: str, side: Side) -> bool:
    """The same, by the name of the topic alone."""
    name = plain_name(subject)
    if name.endswith(_OF_TOPICS):
        return name == f"{topic}-{side.prefix}"
    return topic != "" and name.startswith(f"{topic}-")


def originals_of(topic: str) -> list[tuple[str, str]]:
    """What a topic may be a copy of, if its name begins with that of a cluster: the beginning, and the original."""
    return [(topic[: mark.start()], topic[mark.end() :]) for mark in _SEPARATOR.finditer(topic)]


def copy_context(to: str, context: str, named: str | None) -> str:
    """The context of the target's registry for what is in ``context`` of the source's.

    Args:
        to: the context in which the flow puts its copies.
        named: the source's context that its address names, which ``to`` replaces; others become part of the copy's.
    """
    return ".".join(part for part in (to, "" if context == named else context) if part)


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """What a schema calls ``name`` is version ``version`` of ``subject``, which is qualified with its context."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class SchemaVersion:
    """One version of a subject. ``more`` are parts of it that are carried along unread, such as Confluent's
    ``metadata`` and ``ruleSet``, as JSON. ``deleted`` is a soft delete: the id can still be looked up."""

    subject: str
    version: int
    id: int
    schema: str = field(repr=False)
    schema_type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    more: tuple[tuple[str, str], ...] = ()
    deleted: bool = False

    @property
    def place(self) -> tuple[str, int]:
        return self.subject, self.version

    @property
    def fingerprint(self) -> str:
        """Equal for the same schema with the same references, however its JSON is laid out."""
        text = self.schema.strip()
        if self.schema_type != "PROTOBUF":
            # What is not JSON, or nested too deeply to be read, is compared as it is written.
            with suppress(ValueError, RecursionError):
                text = json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
        parts = (self.schema_type, text, sorted(map(repr, self.references)), self.more)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """A row of ``GET /schemas``. Raises KeyError, TypeError or ValueError for what is none."""
        subject = str(row["subject"])
        context = context_of(subject)
        references = tuple(
            Reference(str(one["name"]), referred_subject(context, str(one["subject"])), int(one["version"]))
            for one in row.get("references") or ()
        )
        more = tuple((key, json.dumps(row[key], sort_keys=True)) for key in ("metadata", "ruleSet") if row.get(key))
        version, schema_id = int(row["version"]), int(row["id"])
        schema, kind = str(row["schema"]), str(row.get("schemaType") or "AVRO")
        return cls(subject, version, schema_id, schema, kind, references, more)

    def request(self) -> dict[str, Any]:
        """The body that registers it with its id and version."""
        body: dict[str, Any] = {"schema": self.schema, "id": self.id, "version": self.version}
        if self.schema_type != "AVRO":  # what registries that know no other take for granted
            body["schemaType"] = self.schema_type
        if self.references:
            body["references"] = [
                {"name": reference.name, "subject": reference.subject, "version": reference.version}
                for reference in self.references
            ]
        return body | {key: json.loads(text) for key, text in self.more}


def referred_subject(context: str, subject: str) -> str:
    """References without a context are to the context of the referring schema."""
    return subject if subject.startswith(_CONTEXT_PREFIX) else qualified(context, subject)


@dataclass(frozen=True)
class RegistryView:
    """What a registry holds. ``levels`` are the compatibility levels of subjects that have one of their own, and under
    an empty name that of the registry as a whole. ``contexts``: whether it has any; mode ``IMPORT`` is older than they
    are, so a registry without contexts counts as one without that mode."""

    schemas: Mapping[tuple[str, int], SchemaVersion] = field(default_factory=dict)
    levels: Mapping[str, str] = field(default_factory=dict)
    contexts: bool = True

    @classmethod
    def of(cls, schemas: Iterable[SchemaVersion], levels: Mapping[str, str] | None = None) -> Self:
        return cls({schema.place: schema for schema in schemas}, levels or {})

    @property
    def subjects(self) -> list[str]:
        """Subjects with a version that is not deleted, sorted."""
        return sorted({schema.subject for schema in self.schemas.values() if not schema.deleted})


@dataclass(frozen=True)
class SubjectNaming:
    """Which subjects of the source a flow copies, and what their copies are called.

    ``context`` is where copies go, empty for the same names. ``from_target`` are names of contexts that hold what came
    from the target: nothing in them is copied back, neither at once nor over a third registry. ``named`` is the context
    that the address of the source's registry names: only its subjects are selected, by their names in it, and others
    are copied where these refer to them. None if the address names none.
    """

    subjects: NameFilter
    context: str = ""
    from_target: frozenset[str] = frozenset()
    named: str | None = None

    def is_copied(self, subject: str) -> bool:
        if self.came_from_target(subject):
            return False
        if self.named is None:
            return self.subjects.decide(subject).accepted
        return context_of(subject) == self.named and self.subjects.decide(plain_name(subject)).accepted

    def came_from_target(self, subject: str) -> bool:
        return not self.from_target.isdisjoint(context_of(subject).split("."))

    def target_subject(self, subject: str) -> str:
        """The name on the target; contexts of the source are appended to the flow's."""
        return qualified(copy_context(self.context, context_of(subject), self.named), plain_name(subject))

    def on_target(self, schema: SchemaVersion) -> SchemaVersion:
        """The schema as the target's registry is to have it."""
        return replace(
            schema,
            subject=self.target_subject(schema.subject),
            references=tuple(
                replace(reference, subject=self.target_subject(reference.subject)) for reference in schema.references
            ),
        )
