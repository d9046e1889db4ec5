"""A page of docs/ as HTML: headings with anchors, links to where the app has their targets, no raw HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")

_COMMENT = re.compile(r"^<!--.*?-->\n", re.DOTALL | re.MULTILINE)

#: Gives the address of what the text links to; None: there is no such thing here.
Resolve = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class MarkdownPage:
    """``title`` is the first heading, plain text; ``anchors`` are those of all headings."""

    title: str
    html: str
    anchors: frozenset[str]


def markdown_page(text: str, resolve: Resolve) -> MarkdownPage:
    """Links that ``resolve`` knows nothing of stay as their text; pictures and comments are left out."""
    tokens = _MARKDOWN.parse(_COMMENT.sub("", text))
    anchors: list[str] = []
    titles: list[str] = []
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            titles.append(_plain(inline.children or ()))
            opening.attrSet("id", _anchor(titles[-1], anchors))
            anchors.append(str(opening.attrGet("id")))
    for token in tokens:
        if token.children is not None:
            token.children = list(_linked(token.children, resolve))
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    return MarkdownPage(titles[0] if titles else "", html, frozenset(anchors))


def _anchor(title: str, taken: Iterable[str]) -> str:
    """As GitHub makes it."""
    plain = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
    found, number = plain, 0
    while found in taken:
        number += 1
        found = f"{plain}-{number}"
    return found


def _plain(children: Iterable[Token]) -> str:
    return "".join(child.content for child in children if child.type in ("text", "code_inline"))


def _linked(children: Iterable[Token], resolve: Resolve) -> Iterator[Token]:
    kept = True  # links hold no links
    for child in children:
        if child.type == "link_open":
            place = resolve(str(child.attrGet("href")))
            kept = place is not None
            if place is None:
                continue
            child.attrSet("href", place)
        if (child.type == "link_close" and not kept) or child.type == "image":
            continue
        yield child
