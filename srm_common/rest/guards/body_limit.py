"""No request is read further than any that makes sense: bodies are read before anybody asks for a login."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from srm_common.rest.faults import OF_STATUS, refusal
from srm_common.rest.schemas import Fault

#: Two lists of 10,000 topics with the longest names, and as much again.
MOST_BYTES = 10 << 20
_SENTENCE = f"the request is longer than {MOST_BYTES >> 20} MB"


class BodyLimit:
    """Middleware."""

    def __init__(self, app: ASGIApp, most_bytes: int = MOST_BYTES) -> None:
        self._app = app
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "")
        if announced.isdecimal() and int(announced) > self._most_bytes:
            await refusal(413, [Fault(code=OF_STATUS[413], message=_SENTENCE)])(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._most_bytes:
                raise HTTPException(413, _SENTENCE)
            return message

        await self._app(scope, counted, send)
