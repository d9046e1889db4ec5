"""Statements as Spark understands them: parsed and resolved by Spark itself, checked, and made one column.

A statement may only drop records and change them one by one. So its plan is Project over optional Filter over the
relation ``records``; whatever needs more than one record, or makes several of one, is another plan and refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from srm_common.domain.transforms.statements import Statement, StatementColumns
from srm_common.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RELATION = "records"
#: What statements may change, with the type that is written.
CHANGEABLE = {
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key: string, value: binary>>",
    "timestamp": "timestamp",
}
_FIXED = {"topic": "string", "partition": "int", "offset": "bigint"}
#: What records have. Statements see :data:`PARSED`, too.
COLUMNS = {**_FIXED, **CHANGEABLE}
#: The value, parsed; of type VARIANT. Slots send JSON for what is Avro.
JSON, AVRO = PARSED = ("json", "avro")
#: Types of literals, and texts that do not stand for one fixed moment.
_MOMENTS = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"})
_SPECIAL = re.compile(r"""[rR]?['"]\s*(now|today|tomorrow|yesterday)\b""", re.IGNORECASE)
_PARSED = ("Project", "Filter", "SubqueryAlias", "UnresolvedRelation")
#: ``records`` itself is whatever lies below the view.
_ANALYZED = ("Project", "Filter", "SubqueryAlias", "View")
#: Columns that may be null, and large; expressions that only ask whether they are null.
_NULLABLE = frozenset({"key", "value", "headers"})
_ASKS_FOR_NULL = frozenset({"IsNull", "IsNotNull"})
_WHY = {
    "Aggregate": "it aggregates",
    "Distinct": "it removes duplicates",
    "Generate": "it makes one record into several",
    "GlobalLimit": "it limits the number of records",
    "Join": "it joins",
    "OneRowRelation": "it does not read records",
    "Sort": "it sorts",
    "Union": "it unites several queries",
    "UnresolvedHaving": "it aggregates",
    "Window": "it looks at several records",
}


class Compiled(NamedTuple):
    """A statement, checked. ``column``: a struct of ``kept`` and the columns that it changes, or null for a record that
    the statement fails on."""

    column: Column
    columns: StatementColumns


def with_parsed(rows: DataFrame, parsed: Collection[str]) -> DataFrame:
    """Rows with parsed columns: :data:`JSON` from ``value``, and :data:`AVRO` in place of its text.

    A value that is no JSON is null there instead of an error: Spark may parse outside of the TryEval around a
    statement.
    """
    from pyspark.sql import functions as F

    texts = {JSON: F.col("value").cast("string"), AVRO: F.col(AVRO)} if parsed else {}
    return rows.withColumns({name: F.try_parse_json(texts[name]) for name in parsed})


def compile_statement(
    session: SparkSession, records: DataFrame, statement: Statement, gives: Sequence[str] | None = None
) -> Compiled:
    """What a statement does to a row of ``records``.

    Args:
        records: with :data:`COLUMNS` and, as :func:`with_parsed` gives them, :data:`PARSED`.
        gives: the columns that are in the struct, null where the statement does not change them; by default those that
            it changes.

    Raises:
        ConfigError: it cannot be parsed or resolved, or is not of this form; one sentence with its key.
    """
    from pyspark.errors import PySparkException

    records.createOrReplaceTempView(RELATION)
    classic: Any = session
    try:
        # Parsed first: to resolve a command is to carry it out.
        parsed = classic._jsparkSession.sessionState().sqlParser().parsePlan(statement.text)
        _check(statement, parsed, _PARSED)
        if parsed.nodeName() != "Project":
            raise _refused(statement, _reason(parsed.nodeName()))
        analyzed = classic.sql(statement.text)._jdf.queryExecution().analyzed()
        _check(statement, analyzed, _ANALYZED)
        compiled = _compiled(classic, statement, analyzed, gives)
        # Resolves it: a column of a type that cannot be written shows here.
        records.select(compiled.column)
        return compiled
    except PySparkException as error:
        raise _refused(statement, _sentence(error)) from None


def result_of_filling(gives: Sequence[str]) -> Column:
    """What comes back for a row that is no record: its column ``filling``, and nothing else."""
    from pyspark.sql import functions as F

    nothing = (F.lit(None).cast(CHANGEABLE[name]).alias(name) for name in gives)
    return F.struct(F.lit(False).alias("kept"), *nothing, F.col("filling"))


def _compiled(session: Any, statement: Statement, analyzed: Any, gives: Sequence[str] | None) -> Compiled:
    from pyspark.sql import functions as F
    from pyspark.sql.classic.column import Column as ClassicColumn

    expressions = session._jvm.org.apache.spark.sql.catalyst.expressions
    utils = session._jvm.org.apache.spark.sql.classic.ExpressionUtils
    _check_repeatable(session, statement, analyzed)
    child = analyzed.child()
    parts = [child.condition()] if child.nodeName() == "Filter" else []
    condition = ClassicColumn(utils.column(parts[0])) if parts else F.lit(True)
    changed: dict[str, Any] = {}
    header: tuple[str, bytes | None] | None = None
    seen: set[str] = set()
    for item in _items(analyzed.projectList()):
        # Named as the statement writes it, in whatever case.
        name = item.name().lower()
        read = item.child() if item.nodeName() == "Alias" else item
        plain = read.nodeName() == "AttributeReference" and read.name().lower() == name
        if name in seen:
            raise _refused(statement, f"column {name} appears twice")
        seen.add(name)
        if name in PARSED and plain:
            # By SELECT *.
            continue
        if name in _FIXED and not plain:
            raise _refused(statement, f"it changes {name}, by which records keep partition and order")
        if name not in CHANGEABLE and name not in _FIXED:
            raise _refused(
                statement, f"column '{item.name()}' is none of {', '.join(CHANGEABLE)}: give it a name with AS"
            )
        if name == "headers" and not plain:
            header = _appended(expressions, item.child())
        if not plain and (name != "headers" or header is None):
            parts.append(item.child())
            changed[name] = ClassicColumn(utils.column(item.child())).cast(CHANGEABLE[name]).alias(name)
    if any(expressions.SubqueryExpression.hasSubquery(part) for part in parts):
        raise _refused(statement, _reason("a subquery"))
    reads = {one.name().lower() for part in parts for one in _items(part.references().toSeq())}
    values = {name for part in parts for name in _values(part)}
    parsed = tuple(name for name in PARSED if name in reads)
    if parsed:
        reads = reads - {JSON} | {"value"}
    if JSON in parsed:
        values.add("value")
    nulls = reads.intersection(_NULLABLE) - values
    nothing = {name: F.lit(None).cast(CHANGEABLE[name]).alias(name) for name in (changed if gives is None else gives)}
    filling = F.lit(None).cast("binary").alias("filling")
    kept = F.struct(F.lit(True).alias("kept"), *{**nothing, **changed}.values(), filling)
    dropped = F.struct(F.lit(False).alias("kept"), *nothing.values(), filling)
    either: Any = F.when(condition, kept).otherwise(dropped)
    column: Column = ClassicColumn(utils.column(expressions.TryEval(utils.expression(either._jc))))
    for name in parsed:
        # JSON's null is a value of type VARIANT.
        column = F.when(F.col("value").isNull() | F.col(name).isNotNull(), column)
    return Compiled(
        column, StatementColumns(tuple(sorted(reads)), tuple(changed), tuple(sorted(nulls)), header, parsed)
    )


def _values(expression: Any) -> set[str]:
    """The columns whose values an expression uses, beyond asking whether they are null."""
    if expression.nodeName() == "AttributeReference":
        return {expression.name().lower()}
    children = list(_items(expression.children()))
    if expression.nodeName() in _ASKS_FOR_NULL and children[0].nodeName() == "AttributeReference":
        return set()
    return {name for child in children for name in _values(child)}


def _check_repeatable(session: Any, statement: Statement, analyzed: Any) -> None:
    """Refuse what gives another result each time."""
    if not analyzed.deterministic():
        raise _refused(statement, "it is not deterministic, so that a record copied again would differ")
    patterns = session._jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    if analyzed.containsPattern(patterns.CURRENT_LIKE()):
        raise _refused(statement, "it depends on when or by whom it is run, so that a record copied again would differ")
    if special := _special_moment(session, statement.text, analyzed):
        raise _refused(statement, f"{special} stands for when it is run, so that a record copied again would differ")
    child = analyzed.child()
    conditions = [child.condition()] if child.nodeName() == "Filter" else []
    if any(map(_encrypts_at_random, [*_items(analyzed.projectList()), *conditions])):
        raise _refused(
            statement,
            "aes_encrypt takes a random initialization vector, so that a record copied again would differ: give it "
            "one, or the mode 'ECB'",
        )


def _encrypts_at_random(expression: Any) -> bool:
    """Whether each evaluation gives other bytes, although Spark calls the function deterministic."""
    children = list(_items(expression.children()))
    if expression.nodeName() == "AesEncrypt":
        mode, vector = children[2], children[4]
        while vector.nodeName() == "Cast":
            vector = vector.child()
        # Without a vector, CBC and GCM draw one (ExpressionImplUtils.aesEncrypt).
        if mode.toString().upper() != "ECB" and vector.nodeName() == "Literal" and vector.toString() == "":
            return True
    return any(map(_encrypts_at_random, children))


def _appended(expressions: Any, expression: Any) -> tuple[str, bytes | None] | None:
    """Name and value of the header, if the expression only appends one that is the same for each record.

    Args:
        expressions: Catalyst's package.
    """
    if expression.nodeName() != "ArrayAppend":
        return None
    before, added = expression.children().apply(0), expression.children().apply(1)
    while before.nodeName() == "Cast":
        before = before.child()
    if before.nodeName() != "AttributeReference" or before.name().lower() != "headers" or not added.foldable():
        return None
    kinds = [field.dataType().typeName() for field in added.dataType().fields()]
    # Null where it fails: then it fails for each record, and each is reported.
    row = expressions.TryEval(added).eval(None)
    if kinds != ["string", "binary"] or row is None or row.isNullAt(0):
        return None
    return row.getUTF8String(0).toString(), None if row.isNullAt(1) else bytes(row.getBinary(1))


def _special_moment(session: Any, text: str, analyzed: Any) -> str | None:
    """What in a statement stands for a different moment each time (``DateTimeUtils.convertSpecialTimestamp``)."""
    parser = session._jvm.org.apache.spark.sql.catalyst.parser
    stream = session._jvm.org.antlr.v4.runtime.CharStreams.fromString(text)
    # Of typed literals, the parser leaves only the moment.
    tokens = parser.SqlBaseLexer(parser.UpperCaseCharStream(stream)).getAllTokens()
    written = [token.getText() for token in tokens if token.getChannel() == 0]
    for kind, literal in itertools.pairwise(written):
        if kind.upper() in _MOMENTS and re.match(_SPECIAL, literal):
            return f"{kind} {literal}"
    changed = session._jvm.org.apache.spark.sql.catalyst.optimizer.SpecialDatetimeValues.apply(analyzed)
    return None if changed.equals(analyzed) else "a text such as 'now' or 'today' as a date or timestamp"


def _check(statement: Statement, plan: Any, allowed: tuple[str, ...]) -> None:
    """Refuse a plan with nodes other than ``allowed``. Those below the view of records are not the statement's."""
    names = [node.nodeName() for node in _nodes(plan)]
    for name in names:
        if name not in allowed:
            raise _refused(statement, _reason(name))
    if names.count("Project") > 1 or names.count("Filter") > 1:
        raise _refused(statement, _reason("a query inside the query"))


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    if plan.nodeName() != "View":
        for child in _items(plan.children()):
            yield from _nodes(child)


def _items(sequence: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    for number in range(sequence.size()):
        yield sequence.apply(number)


def _reason(name: str) -> str:
    why = _WHY.get(name, f"it has {name}")
    return f"{why}, and only SELECT ... FROM {RELATION} WHERE ... keeps partitions and order"


def _refused(statement: Statement, reason: str) -> ConfigError:
    return ConfigError(f"{statement.key} cannot be carried out: {reason}")


def _sentence(error: Any) -> str:
    """Spark's own sentence, without its plans: what is wrong and where."""
    first = next(line for line in str(error).splitlines() if line.strip())
    return first.strip().rstrip(";")
