"""An answer that is put together again and again, on a terminal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from srm_common.cli.output import Answer, Format, console
from srm_common.errors import ConfigError, SrmError

interval_option = click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait between two looks.",
)


def watch(look: Callable[[], Answer], seconds: float, output: Format) -> Answer:
    """Show what ``look`` answers, anew every so many ``seconds``, until Ctrl-C; the last answer is left on the screen.

    An error of one look is shown, and the next one tries again.

    Raises:
        ConfigError: there is no terminal, or the answer is not for people.
    """
    screen = console()
    if output != "table" or not screen.is_terminal:
        raise ConfigError("watching is for terminals; leave it out, and ask again as often as you like")
    answer = Answer(None, "nothing was seen yet")
    with Live(console=screen, screen=True, auto_refresh=False) as live, _noticing_interrupts() as interrupted:
        try:
            while not interrupted.is_set():
                try:
                    answer = look()
                    live.update(_picture(answer.text), refresh=True)
                except SrmError as error:
                    live.update(_picture([f"{error}", "", *_parts(answer.text)]), refresh=True)
                interrupted.wait(seconds)
        except KeyboardInterrupt:
            pass
    return answer


@contextmanager
def _noticing_interrupts() -> Iterator[threading.Event]:
    """Set by Ctrl-C, which raises KeyboardInterrupt as ever: one that comes within a callback of a library is lost."""
    interrupted = threading.Event()

    def notice(number: int, frame: FrameType | None) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, notice)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _parts(text: RenderableType | Sequence[RenderableType]) -> Sequence[RenderableType]:
    return [text] if isinstance(text, str) or not isinstance(text, Sequence) else text


def _picture(text: RenderableType | Sequence[RenderableType]) -> Group:
    # str would be read as markup: topic names and expressions may hold brackets.
    return Group(*(Text(part) if isinstance(part, str) else part for part in _parts(text)))
