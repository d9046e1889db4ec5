"""A few changed inputs for each parser, the same in every run; ``make fuzz`` tries more."""

from __future__ import annotations

import re
from contextlib import suppress
from random import Random

import pytest

from tests.examples import examples
from tests.fuzz.limits import TookTooLong, limits
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

_INPUTS = examples(25)


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_read_and_what_is_made_of_them_is_read_or_refused(name: str) -> None:
    target = TARGETS[name]
    target.warm_up()
    # Some are refused by some: a message set of old, by whoever reads state topics.
    assert any([target.accepts(seed) for seed in target.seeds])
    for number in range(_INPUTS):
        data = target.input(Random(number))
        try:
            target.accepts(data)
        except (Exception, TookTooLong) as error:
            pytest.fail(f"{name} raises {error!r} for {data!r}")


@pytest.mark.parametrize(
    "name",
    [
        "plan-file",
        "selection",
        "filter-lists",
        "offsets-file",
        "airflow-connection",
        "json",
        "json-schema",
        "token-answer",
        "airflow-answer",
        "connectors",
        "strimzi",
    ],
)
@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 100_000, b"[" + b"9" * 5000 + b"]"])
def test_json_that_python_cannot_hold_is_refused(name: str, text: bytes) -> None:
    assert not TARGETS[name].accepts(text)


def test_a_plan_of_no_time_is_refused() -> None:
    target = TARGETS["plan-file"]
    damaged = [re.sub(rb'("made_ms": )\d+', rb"\g<1>1e999", seed) for seed in target.seeds]
    assert damaged != [*target.seeds]
    assert not any(map(target.accepts, damaged))


def test_a_key_store_with_a_certificate_of_an_unknown_version_is_refused() -> None:
    target = TARGETS["java-store"]
    damaged = target.seeds[0].replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x22")
    assert damaged != target.seeds[0]
    assert not target.accepts(target.fitted(damaged, Random(1)))


def test_an_input_that_would_take_all_memory_is_a_finding() -> None:
    hungry = Target("hungry", [b""], lambda data: bytearray(1 << 30), (ValueError,))
    with pytest.raises(MemoryError):
        hungry.accepts(b"")
    assert len(bytearray(1 << 28)) == 1 << 28  # for an input alone


def test_an_input_that_takes_too_long_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.limits.MOST_SECONDS", 0.05)

    def endless(_data: bytes) -> None:
        while True:
            with suppress(Exception):
                sum(range(100))

    with pytest.raises(TookTooLong):
        Target("endless", [b""], endless, (ValueError,)).accepts(b"")
    with limits():
        pass
