"""Numbers on the command lines of the demos."""

from __future__ import annotations

import argparse
import threading


def seconds(text: str) -> float:
    """A time to wait, for ``argparse``: not NaN, infinite or negative, with which a demo would end at once or never."""
    number = float(text)
    if not 0 <= number <= threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds to wait")
    return number


def interval(text: str) -> int:
    """Whole seconds, at least one."""
    number = int(text)
    if not 1 <= number <= threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds, 1 or more")
    return number
