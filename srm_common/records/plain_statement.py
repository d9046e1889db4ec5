"""Evaluates plain statements in the slot, where others go to Spark (docs/adr/0016)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from srm_common.domain.transforms.plain_statements import (
    Comparison,
    Condition,
    IsNull,
    Junction,
    Not,
    PlainStatement,
    plain_statement,
)
from srm_common.domain.transforms.statements import Statement, StatementColumns

_COMPARED = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


class PlainStatements:
    """The statements of a flow that does not need Spark for any of them
    (:func:`~srm_common.domain.transforms.plain_statements.needs_spark`)."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        self._statements: list[PlainStatement] = []
        for statement in statements:
            plain = plain_statement(statement)
            if plain is None:
                raise ValueError(f"{statement.key} is not plain")
            self._statements.append(plain)

    def columns(self, statement: int) -> StatementColumns:
        """The columns that a statement reads and changes; ``statement`` is its number in the flow."""
        return self._statements[statement].columns

    def evaluate(self, statement: int, columns: Mapping[str, pa.Array], rows: int, what: str) -> pa.StructArray:
        """As :class:`srm_common.records.sql_statement.Evaluate`, except that no record fails."""
        plain = self._statements[statement]
        every = pa.repeat(pa.scalar(True), rows)
        kept = every if plain.condition is None else _evaluated(plain.condition, columns)
        constants = {name: pa.repeat(pa.scalar(value, pa.binary()), rows) for name, value in plain.constants.items()}
        return pa.StructArray.from_arrays([kept, *constants.values()], names=["kept", *constants])


def _evaluated(condition: Condition, columns: Mapping[str, pa.Array]) -> pa.BooleanArray:
    match condition:
        case IsNull(column):
            return columns[column].is_null()
        case Comparison(column, operator, operand):
            array = columns[column]
            # As 64-bit numbers: a partition may be compared with a number that no partition can have.
            kind = array.type if isinstance(operand, str) else pa.int64()
            return _COMPARED[operator](array.cast(kind), pa.scalar(operand, kind))
        case Not(inner):
            return pc.invert(_evaluated(inner, columns))
        case Junction(conditions, all_of_them):
            return reduce(pc.and_ if all_of_them else pc.or_, (_evaluated(one, columns) for one in conditions))
