"""What starts in a thread of its own."""

from __future__ import annotations

import threading

import pytest

from srm_common.errors import SparkFailed
from srm_common.replication.spark.spark_application import Ahead


def test_what_is_made_ahead_is_made_once_while_others_go_on() -> None:
    may_go_on = threading.Event()
    made: list[str] = []

    def make() -> list[str]:
        assert may_go_on.wait(300)
        made.append(threading.current_thread().name)
        return made

    ahead = Ahead(make)
    assert not made
    may_go_on.set()
    assert ahead() is made
    assert ahead() == ["srm-ahead"]


def test_who_needs_it_gets_its_error() -> None:
    def make() -> str:
        raise SparkFailed("there is no Java")

    ahead = Ahead(make)
    ahead.wait()
    for _ in range(2):
        with pytest.raises(SparkFailed, match="there is no Java"):
            ahead()
