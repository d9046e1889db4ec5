"""How many requests a caller of ``srm-control serve`` may make: a token bucket for each."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from srm_common.rest.faults import refusal
from srm_common.rest.schemas import Fault
from srm_common.rest.serving.connection_limits import network_of

#: Requests a second in the long run, and at once. A page asks for a few a second, a gateway or a scraper for fewer.
STEADY, BURST = 50.0, 200
#: How many callers are remembered; one that was forgotten begins with a full bucket.
_MOST_CALLERS = 10_000


class RequestRate:
    """Middleware in front of everything else, logins included: it holds for requests that are refused, too.

    A caller is an address (:func:`network_of`) with what it sends as its login: behind a proxy all have the same
    address. Whoever invents logins to get more is stopped by the limit of wrong ones.

    Args:
        clock: seconds that never go back.
    """

    def __init__(
        self,
        app: ASGIApp,
        steady: float = STEADY,
        burst: int = BURST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._steady, self._burst, self._clock = steady, float(burst), clock
        #: Caller -> requests it may still make at once, and when that was so. Those that asked last are last.
        self._left: dict[bytes, tuple[float, float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (wait := self._wait_seconds(_caller(scope))) > 0:
            seconds = math.ceil(wait)
            message = f"more than {self._steady:g} requests a second; try again in {seconds} s"
            refused = refusal(429, [Fault(code="too_many_requests", message=message)], {"Retry-After": str(seconds)})
            await refused(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _wait_seconds(self, caller: bytes) -> float:
        """Take a token and return 0; if there is none, return how long it takes until there is."""
        now = self._clock()
        left, then = self._left.pop(caller, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._steady)
        taken = left >= 1
        self._left[caller] = left - taken, now
        if len(self._left) > _MOST_CALLERS:
            del self._left[next(iter(self._left))]
        return 0.0 if taken else (1 - left) / self._steady


def _caller(scope: Scope) -> bytes:
    address = scope["client"][0] if scope.get("client") else ""
    login = Headers(scope=scope).get("authorization", "")
    # No login is kept in memory for this.
    return hashlib.blake2b(f"{network_of(address)} {login}".encode(), digest_size=16).digest()
