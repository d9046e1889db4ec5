"""Middleware for all routes: limits the size of requests, sets security headers, refuses cross-site requests, keeps
redirections valid behind proxies."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from srm_common.rest.faults import OF_STATUS, refusal
from srm_common.rest.schemas import Fault

#: Twice as much as two lists of 10,000 topics with the longest names.
MOST_BYTES = 10 << 20
_SENTENCE = f"the request is longer than {MOST_BYTES >> 20} MB"
#: For the whole body of a request: 10 MB over a line of 1.4 Mbit/s.
MOST_SECONDS = 60.0


class BodyLimit:
    """Middleware."""

    def __init__(self, app: ASGIApp, most_bytes: int = MOST_BYTES, most_seconds: float = MOST_SECONDS) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._most_seconds = most_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdecimal() and int(announced) > self._most_bytes:
            await refusal(413, [Fault(code=OF_STATUS[413], message=_SENTENCE)])(scope, receive, send)
            return
        read, complete = 0, False
        until = asyncio.get_running_loop().time() + self._most_seconds

        async def counted() -> Message:
            nonlocal read, complete
            if complete:  # only the end of the connection follows, however late
                return await receive()
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the request took longer than {self._most_seconds:g} s to arrive") from None
            read += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if read > self._most_bytes:
                raise HTTPException(413, _SENTENCE)
            return message

        await self._app(scope, counted, send)


#: The page sets a policy of its own; data needs nothing, and may be framed by the same site only.
_HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'self'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}


class SafeHeaders:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_safely if scope["type"] == "http" else send)


# Requests that change something come from our own pages or from programs, never from another site's page.
#
# A browser sends its cookies with requests that other sites make it send. It says so in ``Sec-Fetch-Site``, or, if it
# is older, in ``Origin``; and it sends no JSON to another site without a preflight request, which is not answered here.

CROSS_SITE = "cross_site"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
#: "none": a person typed the address, or no page is behind it.
_OURS = frozenset({"same-origin", "none"})


class SameOrigin:
    """Middleware that refuses cross-site requests, except those that change nothing."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in _SAFE and (refusal := _refusal(Headers(scope=scope))):
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _refusal(headers: Headers) -> JSONResponse | None:
    if not from_here(headers):
        return _refused(
            403, CROSS_SITE, "this request comes from a page of another site; changes are only accepted from our own"
        )
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        return _refused(
            415,
            OF_STATUS[415],
            f"a request that changes something carries JSON (Content-Type: application/json, at least {{}}), "
            f"not {kind or 'nothing'}",
        )
    return None


def from_here(headers: Headers) -> bool:
    """Whether no page of another site sent the request, as far as the browser says."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site.lower() in _OURS
    origin = headers.get("origin")
    if origin is None:
        return True
    try:
        # "null" is the origin of a page that hides where it is from. Schemes may differ: a proxy may have ended TLS.
        return urlsplit(origin).netloc.lower() in {host.lower() for host in _hosts(headers)}
    except ValueError:  # no browser sends such an address
        return False


def _hosts(headers: Headers) -> list[str]:
    # A page of another site cannot set X-Forwarded-Host.
    forwarded = [one.strip() for one in headers.get("x-forwarded-host", "").split(",")]
    return [host for host in (headers.get("host", ""), *forwarded) if host]


def _refused(status: int, code: str, message: str) -> JSONResponse:
    return refusal(status, [Fault(code=code, message=message)])


class RelativeRedirects:
    """Middleware for the redirections by which the router adds or removes a last slash. It makes addresses of what it
    knows of its own, which lacks what a proxy in front of it removed: a prefix, the scheme, perhaps the host."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_relative(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in (307, 308):
                headers = MutableHeaders(scope=message)
                headers["location"] = _relative(headers["location"])
            await send(message)

        await self._app(scope, receive, send_relative if scope["type"] == "http" else send)


def _relative(location: str) -> str:
    """From ``/a/b`` to ``http://host/a/b/``, or back; others as they are."""
    parts = urlsplit(location)
    if not parts.netloc:
        return location
    # With a dot before it a name with a colon is no scheme.
    name = parts.path.rstrip("/").rpartition("/")[2]
    place = f"./{name}/" if parts.path.endswith("/") else f"../{name}"
    return place + (f"?{parts.query}" if parts.query else "")
