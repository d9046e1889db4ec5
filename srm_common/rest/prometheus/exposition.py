"""Prometheus' text format, version 0.0.4: families of samples, one line each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Series(Generic[T]):
    """One gauge, or a counter, which only grows: its name, its meaning in one sentence, and where its value comes from;
    None has no sample. A counter whose name does not end in ``_total`` is ``untyped``, as readers of the format would
    rename it."""

    name: str
    help: str
    value: Callable[[T], float | None]
    kind: Literal["gauge", "counter", "untyped"] = "gauge"


def labels(names: Mapping[str, str]) -> str:
    """``name="value"`` pairs as they stand between the braces, escaped."""
    return ",".join(f'{name}="{escaped(value)}"' for name, value in names.items())


def escaped(value: str) -> str:
    """A label's value: backslash, quote and line feed are written with a backslash."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def family(series: Series[T], samples: Iterable[tuple[str, T]]) -> list[str]:
    """The lines of one family: ``samples`` are pairs of :func:`labels` and what the value is read from. Nothing at all
    where no sample has a value."""
    name, value_of = series.name, series.value
    lines = [f"{name}{{{inside}}} {value}" for inside, source in samples if (value := value_of(source)) is not None]
    if not lines:
        return []
    return [f"# HELP {name} {_one_line(series.help)}", f"# TYPE {name} {series.kind}", *lines]


def _one_line(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")
