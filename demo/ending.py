"""How a demo is ended: by Ctrl-C, and by equivalent signals."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """SIGTERM (``demo stop``) and a closed terminal end it as Ctrl-C does; a second one must not cut that short."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {one: signal.signal(one, interrupt) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
