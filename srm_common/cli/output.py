"""Output: a command returns an :class:`Answer`, and only :func:`show` prints it."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

Format = Literal["table", "json", "csv"]
#: Wide enough that no column wraps where the width does not matter, as in a pipe or a log.
_WIDE = 400


@dataclass(frozen=True)
class Answer:
    """What a command found out.

    ``data`` is for machines: anything ``json.dumps`` takes. ``text`` is for people: text, a table, or several of them.
    ``rows`` is the form for spreadsheets, a header and lines, where the command has one. ``exit_code`` is 0 unless the
    answer itself is bad news.
    """

    data: Any
    text: RenderableType | Sequence[RenderableType]
    exit_code: int = 0
    rows: Sequence[Sequence[object]] | None = None


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, title: str | None = None) -> Table:
    """A table; numbers are right-aligned. Cells are not interpreted as markup."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        made.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text("-" if cell is None else str(cell)) for cell in row))
    return made


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave the error as it is, where rich would end the process."""
        raise


def console(*, stderr: bool = False) -> Console:
    """Where people read; colours only on a terminal, and none where NO_COLOR is set."""
    stream = sys.stderr if stderr else sys.stdout
    return _Console(file=stream, width=None if stream.isatty() else _WIDE, highlight=False, soft_wrap=False)


def _has_letters_of(text: str) -> bool:
    """Whether standard output can take the text as it is."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _escape_letters(encoding: str | None = None) -> None:
    """Escape letters that the encoding lacks (None: the one that standard output has)."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding=encoding, errors="backslashreplace")


def show(answer: Answer, output: Format) -> None:
    """Print an answer on standard output. Where its encoding lacks letters, they are escaped, in JSON as JSON does; CSV
    is UTF-8 then, as in files."""
    if output == "json":
        document = json.dumps(answer.data, indent=2, ensure_ascii=False)
        print(document if _has_letters_of(document) else json.dumps(answer.data, indent=2))
        return
    if output == "csv":
        assert answer.rows is not None, "the command offers csv, but has no rows"
        lines = io.StringIO()
        csv.writer(lines, lineterminator="\n").writerows(
            ["" if cell is None else cell for cell in row] for row in answer.rows
        )
        if not _has_letters_of(lines.getvalue()):
            _escape_letters("utf-8")
        print(lines.getvalue(), end="")
        return
    _escape_letters()
    text = answer.text
    if isinstance(text, str):
        print(text)  # as it is: no line is broken, whatever the width
        return
    parts = list(text) if isinstance(text, Sequence) else [text]
    # str would be read as markup: topic names and expressions may hold brackets.
    console().print(Group(*(Text(part) if isinstance(part, str) else part for part in parts)))
