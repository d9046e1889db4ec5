from __future__ import annotations

from typing import Any

import pytest

from srm_common.airflow_bridge.moves.move_tasks import MODE_TITLES, move_specs
from srm_common.airflow_bridge.params import MoveParams, RunParams, VerifyParams
from srm_common.domain.flow import FlowName
from srm_common.domain.moving.moves import MoveKind, MoveMode, StepName
from srm_common.domain.verification.verification import Against, VerificationScope
from srm_common.errors import ConfigError
from srm_common.spark_jobs.verify import _arguments


def test_a_scheduled_run_is_as_the_file_says() -> None:
    params = RunParams.of({"topics": None, "topics.exclude": None, "run.max.seconds": None, "start": "committed"})
    assert params == RunParams()
    assert params.arguments() == []


def test_topics_may_be_refreshed_at_once() -> None:
    assert RunParams.of({"refresh.at.once": True}) == RunParams(refresh_at_once=True)


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


FORM: dict[str, Any] = {
    "flow": "a->b",
    "mode": "controlled",
    "groups": None,
    "dry_run": False,
    "approved": False,
    "wait_seconds": 60,
}


@pytest.mark.parametrize(
    ("entered", "groups"),
    [(None, None), ([], None), (["", "  "], None), (["billing", " audit "], ("billing", "audit"))],
)
def test_an_empty_field_means_every_group(entered: list[str] | None, groups: tuple[str, ...] | None) -> None:
    assert MoveParams.of(MoveKind.FAILOVER, {**FORM, "groups": entered}).request.groups == groups


@pytest.mark.parametrize(
    ("kind", "along"),
    [(MoveKind.FAILOVER, "a->b"), (MoveKind.FAILBACK, "b->a"), (MoveKind.SWITCH_DIRECTION, "a->b")],
)
def test_a_failback_goes_against_its_flow(kind: MoveKind, along: str) -> None:
    move = MoveParams.of(kind, FORM)
    assert (move.copying, move.opposite) == (FlowName.parse(along), FlowName("b", "a"))


def test_every_step_of_a_move_is_a_task_in_its_order() -> None:
    for spec in move_specs():
        steps = [task.work for task in spec.tasks if isinstance(task.work, StepName)]
        for mode in spec.modes:
            request = MoveParams.of(spec.kind, {**FORM, "mode": mode.value}).request
            assert [step for step in steps if step in request.steps] == list(request.steps)


def test_every_mode_has_a_title() -> None:
    assert MODE_TITLES.keys() == set(MoveMode)


ALL: dict[str, Any] = {
    "flow": "a->b",
    "against": "map",
    "topics": [],
    "topics.exclude": None,
    "sample": 100,
    "since": None,
}


def test_a_verification_of_all_has_nothing_to_say() -> None:
    params = VerifyParams.of({**ALL, "resume": False})
    assert params == VerifyParams(FlowName("a", "b"))
    assert params.scope == VerificationScope()
    assert params.arguments(None) == ["--against", "map", "--sample", "100.000000%"]


def test_choices_of_a_verification_reach_the_spark_job() -> None:
    chosen = {"against": "source", "topics": ["orders.*", " a{1,2} ", ""], "topics.exclude": ["-x"], "sample": 0.5}
    params = VerifyParams.of({**ALL, **chosen, "since": "2026-11-23T00:00:00Z", "resume": True})
    given = _arguments(["--flow", "a->b", "--config", "f", *params.arguments("2026-11-24T03:00:00+00:00")])
    assert given.topics == params.topics == ("orders.*", "a{1,2}")
    assert given.topics_exclude == params.topics_exclude == ("-x",)
    assert VerificationScope(given.sample, given.since) == params.scope == VerificationScope(0.005, 1795392000000)
    assert (given.against, given.resume) == (str(Against.SOURCE), 1795489200000)
    assert params.selection("r").wants("orders.1")
    with pytest.raises(ConfigError, match="'yesterday' is not a time"):
        _ = VerifyParams.of({**ALL, "since": "yesterday", "resume": False}).scope
