"""SIGTERM at the moments at which there is no Spark job to end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest
from pyspark import SparkContext

from srm_common.spark_jobs.stop_signals import StopSignals


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[StopSignals]:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signals = StopSignals()
    signals.watch()
    yield signals
    for number, handler in before.items():
        signal.signal(number, handler)


def being_made() -> SparkContext:
    """As another thread sees it: PySpark makes it the active one before it asks the JVM for anything."""
    return object.__new__(SparkContext)


def stopped() -> SparkContext:
    context = being_made()
    context._jsc = None
    return context


@pytest.mark.parametrize("context", [None, being_made(), stopped()], ids=["none", "being made", "stopped"])
def test_a_context_without_jobs_has_none_to_end(
    signals: StopSignals, context: SparkContext | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    failed: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)
    for thread in threading.enumerate():
        if thread.name == "srm-cancel":
            thread.join(60)
    assert signals.stopping.is_set()
    assert failed == []


def test_ctrl_c_stops_as_sigterm_does_where_another_thread_makes_the_context(signals: StopSignals) -> None:
    """PySpark watches for it only from the main thread."""
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    assert signals.stopping.is_set()
