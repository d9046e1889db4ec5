"""The Replications page: its shell, and the files that it loads.

The shell is the same for all users and has no data, so it needs no login; all that it shows comes from the API, with
the user's permissions. Files are under a path with the version of their content and may be cached by browsers forever;
the shell itself is requested every time.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import HTMLResponse

_FOLDER = Path(__file__).parent / "page"
_SHELL = "index.html"
#: Sent as one file, in this order.
_SHEETS = (
    "vendor/uPlot.min.css",
    "theme.css",
    "page.css",
    "controls.css",
    "parts.css",
    "flow.css",
    "dialogs.css",
    "handbook.css",
)
_ALL_SHEETS = "sheets.css"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain; charset=utf-8",
}
#: Nothing from elsewhere, nothing inline; only Airflow itself, which is the same site, may frame the page.
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
SHELL_HEADERS = {
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
    "Cache-Control": "no-cache",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file that the shell loads, as it is sent."""

    body: bytes
    compressed: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class PageFiles:
    """All files by their path in the folder, and the version of all of them together."""

    files: Mapping[str, PageFile]
    version: str
    shell: str


@cache
def page_files() -> PageFiles:
    """Read the folder, once in a process: half a megabyte."""
    files: dict[str, PageFile] = {}
    digest = hashlib.sha256()
    for path in sorted(_FOLDER.rglob("*")):
        if path.suffix in _MEDIA_TYPES and path.is_file():
            name, body = path.relative_to(_FOLDER).as_posix(), path.read_bytes()
            digest.update(name.encode() + b"\0" + body)
            files[name] = _file(body, path.suffix)
    files[_ALL_SHEETS] = _file(b"\n".join(files[name].body for name in _SHEETS), ".css")
    version = digest.hexdigest()[:12]
    # Modules import each other; naming all of them saves the browser from discovering them one by one.
    modules = [name for name in files if name.endswith(".js") and "/" not in name]
    preload = "\n  ".join(f'<link rel="modulepreload" href="page/{version}/{name}">' for name in modules)
    shell = (_FOLDER / _SHELL).read_text(encoding="utf-8")
    return PageFiles(files, version, shell.replace("{version}", version).replace("<!-- preload -->", preload))


def _file(body: bytes, suffix: str) -> PageFile:
    return PageFile(body, gzip.compress(body, mtime=0), _MEDIA_TYPES[suffix])


router = APIRouter(include_in_schema=False)


@router.get("/", response_class=HTMLResponse)
@router.get("/ui", response_class=HTMLResponse)
def shell() -> HTMLResponse:
    return HTMLResponse(page_files().shell, headers=SHELL_HEADERS)


@router.get("/page/{version}/{name:path}")
def page_file(version: str, name: str, request: Request) -> Response:
    files = page_files()
    file = files.files.get(name)
    if file is None:
        raise HTTPException(404, f"the page has no file '{name}'")
    headers = {
        # A page that was opened before an upgrade gets today's file, and must not keep it under the old name.
        "Cache-Control": "public, max-age=31536000, immutable" if version == files.version else "no-store",
        "X-Content-Type-Options": "nosniff",
        "Vary": "Accept-Encoding",
    }
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.compressed, media_type=file.media_type, headers={**headers, "Content-Encoding": "gzip"})
    return Response(file.body, media_type=file.media_type, headers=headers)
