"""GET /docs: interactive API documentation, by a copy of Swagger UI in this package."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from srm_common.rest.faults import ApiError

router = APIRouter(include_in_schema=False)

_FOLDER = Path(__file__).parent / "docs_page"
_FILES = {
    "docs.css": "docs.css",
    "docs.js": "docs.js",
    "swagger-ui.css": "vendor/swagger-ui.css",
    "swagger-ui-bundle.js": "vendor/swagger-ui-bundle.js",
}
_MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
#: Swagger UI sets styles of its own on elements, and has its pictures within its style sheet.
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


@router.get("/docs", response_class=HTMLResponse)
def docs() -> HTMLResponse:
    shell = (_FOLDER / "index.html").read_text(encoding="utf-8")
    return HTMLResponse(shell, headers={"Content-Security-Policy": _CONTENT_SECURITY_POLICY})


@router.get("/docs/{name}")
def docs_file(name: str, request: Request) -> Response:
    if name not in _FILES:
        raise ApiError(404, "not_found", f"the API's description has no file '{name}'")
    headers = {"Cache-Control": "public, max-age=3600", "Vary": "Accept-Encoding"}
    media_type = _MEDIA_TYPES[Path(name).suffix]
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(_compressed(name), media_type=media_type, headers={**headers, "Content-Encoding": "gzip"})
    return Response((_FOLDER / _FILES[name]).read_bytes(), media_type=media_type, headers=headers)


@cache
def _compressed(name: str) -> bytes:
    return gzip.compress((_FOLDER / _FILES[name]).read_bytes(), mtime=0)
