"""What is certainly wrong with a statement, seen without Spark, so that a file with it is refused when it is loaded.

This splits text as Spark does (``SqlBaseLexer.g4``) and knows a few mistakes by their words. Spark refuses each of
them, too; whatever might be right is Spark's to judge when a run has something to copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

#: What a statement can read.
COLUMNS = ("topic", "partition", "offset", "key", "value", "headers", "timestamp", "json", "avro")
_ONLY = "and only SELECT ... FROM records WHERE ... keeps partitions and order"
_TOKEN = re.compile(
    r"\s+|--[^\r\n]*|(?P<string>[rR]'[^']*'|[rR]\"[^\"]*\"|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|`(?P<quoted>(?:[^`]|``)*)`|(?P<word>[A-Za-z_][A-Za-z_0-9]*)|(?P<number>[0-9][A-Za-z_0-9]*)"
    r"|(?P<sign><=>|<>|!=|<=|>=|==|.)",
    re.DOTALL,
)
#: Comments may be hints and nest; ``$`` begins variables and strings of a kind of their own.
_FOR_SPARK = re.compile(r"/\*|\$|\\\s*\n|[^\x00-\x7f]")
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_COMPARING = frozenset({"=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"})
_TESTING = frozenset({"is", "in", "like", "ilike", "rlike", "between"})
_AGGREGATES = frozenset({"count", "sum", "avg", "min", "max", "collect_list", "collect_set", "approx_count_distinct"})
#: By the words that begin a clause; the second is None where none is needed.
_CLAUSES = (
    ("group", "by", "it aggregates"),
    ("order", "by", "it sorts"),
    ("sort", "by", "it sorts"),
    ("join", None, "it joins"),
    ("union", None, "it unites several queries"),
)
#: Relations that begin with a word which is not their name.
_OTHER_RELATIONS = frozenset({"values", "table", "lateral", "stream", "identifier"})
#: Words that stand for a value without parentheses.
_VALUES = frozenset(
    {"null", "true", "false", "user", "current_user", "session_user", "current_date", "current_time"}
    | {"current_timestamp", "localtime", "localtimestamp", "current_catalog", "current_database", "current_schema"}
)
#: Of these, the others may also begin a clause behind a relation.
_NO_CLAUSE = frozenset(COLUMNS) - {"offset", "timestamp"}


class _Token(NamedTuple):
    """``text``: in lower case for words and names. ``depth``: how many parentheses it is in."""

    kind: str
    text: str
    depth: int
    place: int


class _Wrong(Exception):
    """The reason, for the sentence."""


def statement_fault(text: str) -> str | None:
    """Why Spark would refuse a statement, as the end of a sentence; None where only Spark can say.

    Args:
        text: of a statement that begins with SELECT.
    """
    if _FOR_SPARK.search(text):
        return None
    try:
        tokens = list(_tokens(text.rstrip().rstrip(";")))
        _look(tokens)
    except _Wrong as reason:
        return str(reason)
    return None


def names_column(text: str, column: str) -> bool:
    """Whether a statement has the name of a column in it, outside of strings."""
    named = (found.group("quoted") or found.group("word") for found in _TOKEN.finditer(text))
    return any(name is not None and name.lower() == column for name in named)


def _tokens(text: str) -> Iterator[_Token]:
    depth = 0
    for found in _TOKEN.finditer(text):
        kind, token, place = found.lastgroup, found.group(), found.start()
        if kind is None and token.startswith("`"):
            kind = "quoted"
        if kind is None:
            continue
        if token in ("'", '"', "`"):
            raise _Wrong(f"Syntax error: the text that begins with {token} at position {place} does not end")
        if token in _CLOSING:
            depth -= 1
            if depth < 0:
                raise _Wrong(f"Syntax error at or near '{token}' (position {place}), which closes nothing")
        name = found.group("quoted").lower() if kind == "quoted" else token.lower()
        yield _Token(kind, name, depth, place)
        if token in _OPENING:
            depth += 1
    if depth:
        raise _Wrong("Syntax error at the end: a parenthesis is not closed")


def _look(tokens: Sequence[_Token]) -> None:
    top = [token for token in tokens if not token.depth]
    if len(top) > 1 and _is(top[1], "distinct"):
        raise _Wrong(f"it removes duplicates, {_ONLY}")
    # IS DISTINCT FROM compares.
    start = next(
        (n for n, one in enumerate(top) if _is(one, "from") and not _is(top[n - 1], "distinct")),
        None,
    )
    if start is None:
        raise _Wrong(f"it does not read records, {_ONLY}")
    _look_at_relation(top[start:])
    _look_at_clauses(top[start + 1 :])
    if not any(_is(token, "over") or _is(token, "select") for token in tokens[1:]):
        _look_for_aggregates(tokens)
        _look_at_columns(tokens, top, top[start])


def _look_at_relation(rest: Sequence[_Token]) -> None:
    relation, after = (*rest[1:3], None, None)[:2]
    if relation is None:
        raise _Wrong("Syntax error at the end: FROM names nothing")
    if relation.kind not in ("word", "quoted") or (after is not None and after.text in (".", "(")):
        return
    if relation.text in _OTHER_RELATIONS:
        return
    if relation.text != "records":
        raise _Wrong(f"there is no '{relation.text}' to read from, {_ONLY}")
    # An alias, and what cannot follow one: mostly a WHERE that is misspelt.
    alias, then = (*rest[2:4], None, None)[:2]
    if alias is None or then is None or alias.kind != "word" or alias.text in ("where", "as", "having"):
        return
    if then.kind == "word" and then.text in _NO_CLAUSE:
        raise _Wrong(f"Syntax error at or near '{then.text}' (position {then.place})")


def _look_at_clauses(rest: Sequence[_Token]) -> None:
    for number, one in enumerate(rest):
        before, after = rest[number - 1] if number else None, rest[number + 1] if number + 1 < len(rest) else None
        if after is None or after.text in (".", "where") or (before is not None and _is(before, "as")):
            continue
        for word, second, why in _CLAUSES:
            if _is(one, word) and (second is None or _is(after, second)):
                raise _Wrong(f"{why}, {_ONLY}")
        if _is(one, "limit") and after.kind == "number":
            raise _Wrong(f"it limits the number of records, {_ONLY}")
    if rest and (rest[-1].text in _COMPARING or rest[-1].text == ","):
        raise _Wrong(f"Syntax error at the end: nothing follows {rest[-1].text}")


def _look_for_aggregates(tokens: Sequence[_Token]) -> None:
    for before, one, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if one.kind == "word" and one.text in _AGGREGATES and after.text == "(" and before.text != ".":
            raise _Wrong(f"it aggregates, {_ONLY}")


def _look_at_columns(tokens: Sequence[_Token], top: Sequence[_Token], start: _Token) -> None:
    """Those that stand alone in the list, or before a comparison outside of parentheses."""
    item: list[_Token] = []
    for one in [*(token for token in tokens[1:] if token.place < start.place), _Token("sign", ",", 0, 0)]:
        if one.text != "," or one.depth or one.kind != "sign":
            item.append(one)
            continue
        if len(item) == 1 or (len(item) == 3 and _is(item[1], "as")):
            _known(item[0])
        item = []
    where = False
    for before, one, after in zip(top, top[1:], top[2:], strict=False):
        where = where or (_is(before, "where") and before.place > start.place)
        begins = where and before.kind == "word" and before.text in ("where", "and", "or", "not")
        if begins and after.text in {"sign": _COMPARING, "word": _TESTING}.get(after.kind, frozenset()):
            _known(one)


def _known(one: _Token) -> None:
    is_name = one.kind == "quoted" or (one.kind == "word" and one.text not in _VALUES)
    if is_name and one.text not in COLUMNS:
        raise _Wrong(f"column `{one.text}` cannot be resolved: records has {', '.join(COLUMNS)}")


def _is(one: _Token, word: str) -> bool:
    return one.kind == "word" and one.text == word
