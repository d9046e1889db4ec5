"""Prometheus' text format, version 0.0.4: families of samples, one line each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from srm_common.domain.runs.latency_histogram import LatencyHistogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

T = TypeVar("T")

#: Powers of two, from 8 ms to twelve days: each is where a bucket of a LatencyHistogram starts.
_EDGES_MS = tuple(1 << power for power in range(3, 31))


@dataclass(frozen=True, slots=True)
class Series(Generic[T]):
    """One gauge, or a counter, which only grows: its name, its meaning in one sentence, and where its value comes from;
    None means no sample. A counter whose name does not end in ``_total`` is ``untyped``, since readers of the format
    would rename it. ``scaled``: the value is multiplied with the factor of :class:`Sources`."""

    name: str
    help: str
    value: Callable[[T], float | None]
    kind: Literal["gauge", "counter", "untyped"] = "gauge"
    scaled: bool = False


@dataclass(frozen=True, slots=True)
class LatencySeries(Generic[T]):
    """A histogram of latencies in seconds: its name, its meaning, and where it comes from; None means no sample."""

    name: str
    help: str
    value: Callable[[T], LatencyHistogram | None]


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
    return [*_head(series), *lines] if lines else []


def _head(series: Series[T]) -> tuple[str, str]:
    return f"# HELP {series.name} {_one_line(series.help)}", f"# TYPE {series.name} {series.kind}"


class Sources(Generic[T]):
    """What series are read from, where there may be tens of thousands. The texts of values are made once for all series
    with the same ``value``, which scaled series share with scaled ones only."""

    def __init__(self, sources: Sequence[T], factor: float = 1.0) -> None:
        self._sources = sources
        self._factor = factor
        self._texts: dict[Callable[[T], float | None], list[str | None]] = {}

    def samples(self, series: Series[T], labelled: Sequence[str]) -> list[str]:
        """Lines of the series without its name; ``labelled`` are labels within braces, and the blank that follows, one
        for each source."""
        texts = self._texts.get(series.value)
        if texts is None:
            values: Iterable[float | None] = map(series.value, self._sources)
            if series.scaled:
                values = (None if value is None else value * self._factor for value in values)
            texts = self._texts[series.value] = [None if value is None else str(value) for value in values]
        return [braces + text for braces, text in zip(labelled, texts, strict=True) if text is not None]


def large_family(series: Series[T], parts: Iterable[tuple[Sources[T], Sequence[str]]]) -> list[str]:
    """As :func:`family`, of sources with what :meth:`Sources.samples` wants; all samples are one text."""
    samples = [sample for sources, labelled in parts for sample in sources.samples(series, labelled)]
    return [*_head(series), series.name + f"\n{series.name}".join(samples)] if samples else []


def histogram_family(series: LatencySeries[T], samples: Iterable[tuple[str, T]]) -> list[str]:
    """As :func:`family`: records by latency, at bounds that are the same for all."""
    name, lines = series.name, []
    for inside, source in samples:
        histogram = series.value(source)
        if histogram is None:
            continue
        lines += [f'{name}_bucket{{{inside},le="{edge / 1000}"}} {histogram.below(edge)}' for edge in _EDGES_MS]
        lines += [
            f'{name}_bucket{{{inside},le="+Inf"}} {histogram.records}',
            f"{name}_sum{{{inside}}} {histogram.sum_ms / 1000}",
            f"{name}_count{{{inside}}} {histogram.records}",
        ]
    return [f"# HELP {name} {_one_line(series.help)}", f"# TYPE {name} histogram", *lines] if lines else []


def _one_line(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")
