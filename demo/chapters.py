"""How a demo tells its story: numbered chapters, and sentences."""

from __future__ import annotations

from rich.console import Console, RenderableType


class Chapters:
    """Prints for people."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._number = 0

    def chapter(self, text: str) -> None:
        self._number += 1
        self._console.print(f"\n{self._number}. {text}", style="bold", highlight=False, soft_wrap=True)

    def say(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)

    def show(self, what: RenderableType) -> None:
        self._console.print(what)
