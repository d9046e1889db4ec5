"""Spark SQL over records as a flow configures it: ``transforms.sql`` and, per topic, ``transforms.sql.<name>``.

Connect's keys cannot clash with the first, since theirs are ``transforms`` and ``transforms.<alias>.<setting>``. The
others would clash with the keys of a transform called ``sql``, so a flow has either that or statements.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from srm_common.domain.patterns.java_regex import RegexError, compile_java_regex
from srm_common.domain.transforms.faults import TransformFault
from srm_common.domain.transforms.formats import FormatKind
from srm_common.domain.transforms.statement_faults import names_column, statement_fault

KEY = "transforms.sql"
_TOPICS = ".topics"
_EXAMPLE = "SELECT value FROM records WHERE key IS NOT NULL"


@dataclass(frozen=True, slots=True)
class Statement:
    """A query over the relation ``records``. ``key``: as configured, without a level's prefix. ``topics``: the
    expression that a topic's name at the source matches as a whole."""

    key: str
    text: str
    topics: str = ".*"

    def concerns(self, topic: str) -> bool:
        """Whether it is for records of the topic, by its name at the source."""
        return compile_java_regex(self.topics).matches(topic)

    @property
    def reads_avro(self) -> bool:
        """Whether it reads values by the schemas of a registry."""
        return names_column(self.text, "avro")


@dataclass(frozen=True, slots=True)
class StatementColumns:
    """Which columns of ``records`` a statement needs, and which it changes.

    ``nulls``: those of ``reads`` of which it only asks whether they are null. ``header``: name and value of one that it
    appends to each record's; ``changes`` then lacks the headers. ``parsed``: which of ``json`` and ``avro`` it reads;
    it fails on records whose value is none.
    """

    reads: tuple[str, ...]
    changes: tuple[str, ...]
    nulls: tuple[str, ...] = ()
    header: tuple[str, bytes | None] | None = None
    parsed: tuple[str, ...] = ()


def statement_for(topic: str, statements: Sequence[Statement]) -> int | None:
    """The first that is for the topic; None for none."""
    return next((number for number, one in enumerate(statements) if one.concerns(topic)), None)


def parse_statements(values: Mapping[str, str], formats: Collection[FormatKind] = ()) -> tuple[Statement, ...]:
    """The statements that keys ask for: those with a name in the order of their names, then ``transforms.sql``.
    What only Spark knows to be wrong shows when a run starts (:mod:`srm_common.replication.spark.sql_plan`).

    Args:
        formats: those in which transforms write fields with schemas of a registry.

    Raises:
        TransformFault: the first key that is wrong.
    """
    keys = sorted(key for key in values if key.startswith(f"{KEY}.")) + [KEY] * (KEY in values)
    if not keys:
        return ()
    if "sql" in (alias.strip() for alias in values.get("transforms", "").split(",")):
        if KEY not in values:
            return ()
        raise TransformFault(KEY, "is a statement, but transforms lists a transform 'sql': give that another name")
    statements = tuple(_statement(key, values) for key in keys if not _is_topics(key, values))
    for statement in statements:
        if statement.reads_avro and FormatKind.AVRO in formats:
            raise TransformFault(
                statement.key,
                "reads avro, but the flow's transforms change fields of Avro, and what they write has a schema of the "
                "target's registry: do without one of the two",
            )
    return statements


def _is_topics(key: str, values: Mapping[str, str]) -> bool:
    if not key.endswith(_TOPICS):
        return False
    if key.removesuffix(_TOPICS) not in values:
        raise TransformFault(key, f"names topics, but there is no statement {key.removesuffix(_TOPICS)}")
    return True


def _statement(key: str, values: Mapping[str, str]) -> Statement:
    if key.count(".") > KEY.count(".") + 1:
        raise TransformFault(key, f"is unknown: {KEY}.<name> is a statement and {KEY}.<name>{_TOPICS} says for what")
    text = values[key].strip()
    if not text:
        raise TransformFault(key, f"is empty: it must be like {_EXAMPLE}")
    if text.split(None, 1)[0].upper() != "SELECT":
        raise TransformFault(key, f"is not a query: it must be like {_EXAMPLE}")
    if fault := statement_fault(text):
        raise TransformFault(key, f"cannot be carried out: {fault}")
    topics_key = f"{key}{_TOPICS}"
    topics = values.get(topics_key, ".*").strip()
    try:
        compile_java_regex(topics)
    except RegexError as error:
        raise TransformFault(topics_key, f"cannot be used: {error}") from None
    return Statement(key, text, topics)


@dataclass(frozen=True, slots=True)
class PythonTransform:
    """``path``: ``package.module:function``; ``timeout_seconds``: how long a call may take; ``digest``: of its module's
    file where the run is driven, None where that is not known."""

    path: str
    timeout_seconds: float
    digest: str | None = None
