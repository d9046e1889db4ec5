from __future__ import annotations

import pytest

from srm_common.airflow_bridge.run_params import RunParams
from srm_common.errors import ConfigError


def test_a_scheduled_run_is_as_the_file_says() -> None:
    params = RunParams.of({"topics": None, "topics.exclude": None, "run.max.seconds": None, "start": "committed"})
    assert params == RunParams()
    assert params.arguments() == []


def test_an_empty_form_field_is_no_choice() -> None:
    assert RunParams.of({"topics": [], "topics.exclude": ["", " "], "start": ""}) == RunParams()


def test_choices_reach_the_spark_job_as_strings() -> None:
    params = RunParams.of(
        {"topics": ["orders.*", "pay"], "topics.exclude": ["x"], "run.max.seconds": 0, "start": "earliest"}
    )
    arguments = params.arguments()
    assert all(isinstance(argument, str) for argument in arguments)
    assert dict(zip(arguments[::2], arguments[1::2], strict=True)) == {
        "--max-seconds": "0",
        "--start": "earliest",
    }


def test_topics_narrow_and_are_checked() -> None:
    options = RunParams.of({"topics": ["orders.*", "a{1,2}"], "topics.exclude": ["orders.x"]}).options("r1")
    assert [topic for topic in ("orders.x", "orders.y", "aa", "b") if options.wants(topic)] == ["orders.y", "aa"]
    with pytest.raises(ConfigError, match=r"topics of this run: 'a\(' is not a usable expression: .* at position 3"):
        RunParams.of({"topics": ["a("]}).options("r1")
