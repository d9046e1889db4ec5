"""GET /help: the pages of docs/, for users of the page who do not have the repository.

They hold no data, so they need no login. The wheel contains them (hatch_build.py); a checkout has them in docs/.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from markdown_it import MarkdownIt
from markdown_it.token import Token

from srm_common.rest.faults import ApiError
from srm_common.rest.pages.page import SHELL_HEADERS, page_files

# A page of docs/ as HTML: headings with anchors, links to where the app has their targets, no raw HTML.


_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")

_COMMENT = re.compile(r"^<!--.*?-->\n", re.DOTALL | re.MULTILINE)

#: Returns the address of what the text links to, None if it is not here.
Resolve = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class MarkdownPage:
    """``title`` is the first heading, plain text; ``anchors`` are those of all headings."""

    title: str
    html: str
    anchors: frozenset[str]


def markdown_page(text: str, resolve: Resolve) -> MarkdownPage:
    """Links that ``resolve`` does not know become plain text; pictures and comments are left out."""
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


#: Every state and alarm has an entry here (:mod:`srm_common.domain.health.alarms`).
FIRST = "operations"
_SHELL = Path(__file__).parent / "handbook.html"
_MEDIA_TYPES = {".yaml": "text/yaml; charset=utf-8", ".json": "application/json"}

router = APIRouter(include_in_schema=False)


@cache
def folder() -> Path:
    packed = Path(__file__).parent / "handbook_text"
    return packed if packed.is_dir() else Path(__file__).resolve().parents[3] / "docs"


@cache
def titles() -> dict[str, str]:
    """The title of each page by its name, in the order of titles."""
    found = {}
    for file in folder().glob("*.md"):
        with file.open(encoding="utf-8") as lines:
            found[file.stem] = next(lines).removeprefix("# ").replace("`", "").strip()
    return dict(sorted(found.items(), key=lambda page: page[1].lower()))


@cache
def entry(name: str) -> MarkdownPage:
    """The page ``name`` of :func:`titles`."""
    return markdown_page((folder() / f"{name}.md").read_text(encoding="utf-8"), _address)


def _address(target: str) -> str | None:
    parts = urlsplit(target)
    if parts.scheme or not parts.path:
        return target
    name, _, suffix = parts.path.rpartition(".")
    if suffix == "md" and name in titles():
        return f"{name}#{parts.fragment}" if parts.fragment else name
    return parts.path if parts.path in _files() else None


@cache
def _files() -> dict[str, Path]:
    """What the pages offer for download: Prometheus' rules, Grafana's dashboard."""
    return {f"monitoring/{file.name}": file for file in (folder() / "monitoring").glob("*.*")}


@cache
def _shell(name: str) -> str:
    page = entry(name)
    pages = "".join(
        f'<li><a href="{escape(other)}"{" aria-current=page" * (other == name)}>{escape(title)}</a></li>'
        for other, title in titles().items()
    )
    shell = _SHELL.read_text(encoding="utf-8").replace("{version}", page_files().version)
    shell = shell.replace("{title}", escape(page.title)).replace("<!-- pages -->", pages)
    return shell.replace("<!-- text -->", page.html)


@router.get("/help")
def first() -> RedirectResponse:
    return RedirectResponse(f"help/{FIRST}")


@router.get("/help/{name}", response_class=HTMLResponse)
def help_page(name: str) -> HTMLResponse:
    if name not in titles():
        raise ApiError(404, "not_found", f"the handbook has no page '{name}'")
    return HTMLResponse(_shell(name), headers=SHELL_HEADERS)


@router.get("/help/monitoring/{name}")
def help_file(name: str) -> Response:
    file = _files().get(f"monitoring/{name}")
    if file is None:
        raise ApiError(404, "not_found", f"the handbook has no file '{name}'")
    return Response(file.read_bytes(), media_type=_MEDIA_TYPES.get(file.suffix, "text/plain"))
