"""Writes that need no cluster: schedules, moves, and what is refused before anybody is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from bench.history import flow_names
from srm_common.domain.flow import FlowName
from srm_common.domain.monitoring.schedule import ScheduledRun
from srm_common.domain.moving.moves import MoveKind, StepName
from tests.unit.rest.conftest import SHAPE, Stage, app_of, configuration_text
from tests.unit.rest.people import HEADER
from tests.unit.rest.rights import NEEDED

FLOW = flow_names(SHAPE.flows)[0]
PATH = f"/api/v2/flows/{FLOW.source}/{FLOW.target}"


def fault(answer: Any, status: int) -> tuple[str, str]:
    """Code and message of a refusal."""
    assert answer.status_code == status, answer.text
    (one,) = answer.json()["errors"]
    return one["code"], one["message"]


def test_a_flow_is_paused_and_resumed(stage: Stage) -> None:
    client = stage.client("user")
    assert client.post(f"{PATH}/pause", json={}).json()["done"] == f"{FLOW} is paused: no more runs start"
    assert stage.scheduler.known[FLOW].paused
    assert client.post(f"{PATH}/resume", json={"note": "mended"}).json()["done"] == f"{FLOW} runs on its schedule again"
    assert not stage.scheduler.known[FLOW].paused


def test_resuming_does_not_start_a_flow_that_the_file_disables(stage: Stage) -> None:
    """Also if other keys of the flow are wrong."""
    for more in ("", f"{FLOW}.tasks.max = many\n"):
        text = configuration_text().replace(f"{FLOW}.enabled = true", f"{FLOW}.enabled = false")
        stage.file.write_text(text + more)
        done = stage.client("user").post(f"{PATH}/resume", json={}).json()["done"]
        assert done.startswith(f"{FLOW} is not paused any more, but the file disables {FLOW} ({FLOW}.enabled = false)")


def test_a_run_is_started_and_waits_where_it_has_to(stage: Stage) -> None:
    client = stage.client("user")
    first = client.post(f"{PATH}/runs", json={"note": "now"}).json()
    assert first["done"] == f"started run {first['run_id']} of {FLOW}"
    assert (FLOW.dag_id, first["run_id"]) in stage.scheduler.started
    stage.scheduler.known[FLOW] = replace(stage.scheduler.known[FLOW], running_run_id="r7")
    assert client.post(f"{PATH}/runs", json={}).json()["done"].endswith("; it waits until run r7 has ended")
    stage.scheduler.known[FLOW] = replace(stage.scheduler.known[FLOW], paused=True)
    assert "paused, so the run waits until it is resumed" in client.post(f"{PATH}/runs", json={}).json()["done"]


@pytest.mark.parametrize(
    ("path", "lowest"),
    [
        ("/pause", "user"),
        ("/resume", "user"),
        ("/runs", "user"),
        ("/moves", "op"),
        ("/offsets", "op"),
        ("/filters/preview", "op"),
        ("/transforms/preview", "op"),
    ],
)
def test_what_a_role_may_not_do_is_not_done(stage: Stage, path: str, lowest: str) -> None:
    for who in ("viewer", "user"):
        if who != lowest:
            assert fault(stage.client(who).post(PATH + path, json={}), 403)[0] == "forbidden"
        else:
            break
    assert not stage.scheduler.known[FLOW].paused
    assert stage.scheduler.started == {}


@pytest.mark.parametrize("path", ["/pause", "/resume", "/runs", "/moves"])
def test_unknown_flows_and_airflows_that_do_not_answer(stage: Stage, path: str) -> None:
    client = stage.client("op")
    assert fault(client.post(f"/api/v2/flows/{FLOW.source}/nowhere{path}", json={}), 404)[0] == "unknown_flow"
    stage.scheduler.fault = "Airflow's database does not respond: disk I/O error"
    code, message = fault(client.post(PATH + path, json={}), 502)
    assert (code, message) == ("airflow_failed", "Airflow's database does not respond: disk I/O error")


@pytest.mark.parametrize("path", ["/pause", "/resume", "/runs", "/moves"])
def test_without_an_airflow_another_way_is_named(stage: Stage, path: str) -> None:
    alone = TestClient(app_of(replace(stage.context, scheduler=None)), headers={HEADER: "op"})
    code, message = fault(alone.post(PATH + path, json={}), 409)
    assert code == "no_scheduler"
    assert "SRM_AIRFLOW_URL" in message
    assert "srm-control" in message


def test_pages_of_other_sites_change_nothing(stage: Stage) -> None:
    client = stage.client("op")
    refused = client.post(f"{PATH}/pause", json={}, headers={"sec-fetch-site": "cross-site"})
    assert fault(refused, 403)[0] == "cross_site"
    form = client.post(f"{PATH}/pause", data={"note": "x"})
    assert fault(form, 415)[0] == "json_expected"
    assert not stage.scheduler.known[FLOW].paused


_VALID: dict[str, dict[str, Any]] = {
    "/plan": {},
    "/pause": {},
    "/resume": {},
    "/runs": {"note": "now"},
    "/moves": {"kind": "failover", "mode": "disaster", "dry_run": False},
    "/offsets": {"groups": ["billing"], "dry_run": False},
    "/filters": {"lists": {"topics": ["orders"]}},
    "/filters/preview": {"lists": {"topics": ["orders"]}},
    "/transforms/preview": {},
}


def test_every_write_is_in_these_tests() -> None:
    written = {path.rpartition("}")[2] for method, path in NEEDED if method in ("POST", "PUT")}
    assert written == set(_VALID)


@pytest.mark.parametrize("path", _VALID)
def test_a_field_that_there_is_not_is_refused(stage: Stage, path: str) -> None:
    """A misspelt one that is passed over would move all groups, or skip the check for other edits."""
    method = "PUT" if path == "/filters" else "POST"
    before = dict(stage.scheduler.variables)
    answer = stage.client("op").request(method, PATH + path, json={**_VALID[path], "group": "billing"})
    assert fault(answer, 422) == ("invalid_parameter", "group: there is no such field")
    assert answer.json()["errors"][0]["field"] == "group"
    assert stage.scheduler.started == {}
    assert stage.scheduler.variables == before
    assert not stage.scheduler.known[FLOW].paused


# ---- moves


def test_a_move_is_a_dry_run_unless_told_otherwise(stage: Stage) -> None:
    started = stage.client("op").post(f"{PATH}/moves", json={"groups": ["billing"]}).json()
    run = stage.scheduler.started["srm.failover", started["run_id"]]
    assert run.conf == {
        "flow": str(FLOW),
        "mode": "disaster",
        "groups": ["billing"],
        "dry_run": True,
        "approved": True,
        "wait_seconds": 60.0,
    }
    assert started["done"] == f"started a dry run of the failover of {FLOW} in mode disaster"


@pytest.mark.parametrize(
    ("kind", "mode", "dag_id"),
    [("failback", "continuous", "srm.failback"), ("switch-direction", None, "srm.switch_direction")],
)
def test_every_kind_of_move_has_its_dag(stage: Stage, kind: str, mode: str | None, dag_id: str) -> None:
    body = {"kind": kind, "mode": mode, "dry_run": False}
    started = stage.client("op").post(f"{PATH}/moves", json=body).json()
    conf = stage.scheduler.started[dag_id, started["run_id"]].conf
    assert (conf["mode"], conf["dry_run"], conf["groups"]) == (mode or "controlled", False, None)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"kind": "sideways"}, "kind: it must be one of failover, failback, switch-direction, not 'sideways'"),
        ({"kind": "failback", "mode": "disaster"}, "mode: a failback has mode controlled, continuous, not 'disaster'"),
        ({"mode": "hopeful"}, "mode: a failover has mode disaster, controlled, continuous, not 'hopeful'"),
        (
            {"mode": "controlled", "dry_run": False},
            "kind: say which move is to be carried out, one of failover, failback, switch-direction",
        ),
        (
            {"kind": "failover", "dry_run": False},
            "mode: say in which mode the failover is to be carried out, one of disaster, controlled, continuous",
        ),
        (
            {"kind": "failback", "dry_run": False},
            "mode: say in which mode the failback is to be carried out, one of controlled, continuous",
        ),
        ({"groups": [""]}, "groups.0: String should have at least 1 character"),
    ],
)
def test_a_move_that_there_is_not_is_refused(stage: Stage, body: dict[str, Any], said: str) -> None:
    assert fault(stage.client("op").post(f"{PATH}/moves", json=body), 422) == ("invalid_parameter", said)
    assert stage.scheduler.started == {}


def test_a_move_whose_dag_is_paused_is_not_started(stage: Stage) -> None:
    """It would begin when somebody unpauses the DAG, whenever that is."""
    stage.scheduler.paused_dags.add("srm.failover")
    code, said = fault(stage.client("op").post(f"{PATH}/moves", json={"kind": "failover"}), 409)
    assert code == "dag_paused"
    assert said.startswith("srm.failover is paused in Airflow, so no move was started: unpause it, or use srm-control")
    assert not stage.scheduler.started


def test_how_far_a_move_is(stage: Stage) -> None:
    tasks = (
        ("check", "success"),
        ("translate", "success"),
        ("confirm", "skipped"),
        ("apply", None),
        ("outcome", None),
        ("report", "running"),
    )
    run = ScheduledRun("srm.failover", "r:1+0", "running", 1, None, {"flow": str(FLOW), "dry_run": True}, tasks)
    stage.scheduler.started[run.dag_id, run.run_id] = run
    stage.scheduler.left[run.dag_id, run.run_id] = {
        "return_value": {"check": {"sentences": ["'b' answers"]}, "last_pass": "run x ended well"},
        "positions": {"translate": [{"group": "<b>g</b>", "applied": 7}]},
        "read_again": {"translate": {"most": None, "text": "unknown in all 3 positions"}},
    }
    found = stage.client().get("/api/v2/moves/failover/r%3A1%2B0").json()
    assert found["steps"] == [
        {"step": "check", "state": "done", "sentences": ["'b' answers"]},
        {"step": "confirm", "state": "skipped", "sentences": []},
        {"step": "translate", "state": "done", "sentences": []},
        {"step": "apply", "state": "pending", "sentences": []},
        {"step": "report", "state": "running", "sentences": []},
    ]
    assert found["positions"] == [{"group": "<b>g</b>", "applied": 7}]
    assert found["read_again"] == {"most": None, "text": "unknown in all 3 positions"}
    assert (found["state"], found["dry_run"], found["flow"]) == ("running", True, str(FLOW))


def test_positions_that_airflow_keeps_elsewhere_are_said_to_be_there(stage: Stage) -> None:
    """A service of its own gets the reference that the XCom backend left in Airflow's database."""
    tasks = (("translate", "success"), ("apply", "success"))
    run = ScheduledRun("srm.failover", "r", "running", 1, None, {"flow": str(FLOW)}, tasks)
    stage.scheduler.started[run.dag_id, run.run_id] = run
    stage.scheduler.left[run.dag_id, run.run_id] = {"positions": {"translate": "s3://xcoms/srm.failover/r/1"}}
    found = stage.client().get("/api/v2/moves/failover/r").json()
    assert found["positions"] == []
    translate, apply = found["steps"]
    assert translate["sentences"] == [
        "where groups resume is not shown: Airflow's XCom backend keeps it elsewhere; the log of this task has it"
    ]
    assert apply["sentences"] == []


def test_a_move_waits_for_a_person(stage: Stage) -> None:
    tasks = (("check", "success"), ("confirm", "awaiting_input"))
    run = ScheduledRun("srm.failover", "r", "running", 1, None, {"flow": str(FLOW)}, tasks)
    stage.scheduler.started[run.dag_id, run.run_id] = run
    found = stage.client().get("/api/v2/moves/failover/r").json()
    assert found["state"] == found["steps"][1]["state"] == "waiting"


def test_a_move_of_somebody_elses_flow_is_not_told(stage: Stage) -> None:
    for name, conf in (("r1", {"flow": str(FLOW)}), ("r2", {}), ("r3", {"flow": 7})):
        stage.scheduler.started["srm.failover", name] = ScheduledRun("srm.failover", name, "failed", 1, 2, conf)
    assert stage.client().get("/api/v2/moves/failover/r1").status_code == 200
    for name in ("r2", "r3", "r4"):
        assert fault(stage.client().get(f"/api/v2/moves/failover/{name}"), 404)[0] == "unknown_run"
    assert stage.client("nobody").get("/api/v2/moves/failover/r1").status_code == 403


def test_the_steps_are_those_of_the_dags() -> None:
    from srm_common.airflow_bridge.moves.move_tasks import move_specs
    from srm_common.rest.v2.moves import TASKS, Kind

    for spec in move_specs():
        tasks = [task.task_id for task in spec.tasks][:-1]
        assert [task for task in TASKS if task in tasks] == tasks
        assert spec.dag_id in {kind.dag_id for kind in Kind}
    assert {kind.move for kind in Kind} == set(MoveKind)
    assert set(StepName) <= set(TASKS)


# ---- lists and offsets


_ROW = {"topic": "t", "remote_topic": "e.t", "partition": 0, "translated": 3}


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"groups": []}, "groups", "name at least one"),
        ({"groups": ["a", "b"], "offsets": [{"topic": "t", "remote_topic": "e.t", "partition": 0}]}, "groups", "one"),
        (
            {"groups": ["a"], "offsets": [{"topic": "t", "remote_topic": "e.t", "partition": 0}]},
            "offsets.0.translated",
            "the offset to set is missing",
        ),
        ({"groups": ["a"], "offsets": [{**_ROW, "offset": 3}]}, "offsets.0.offset", "there is no such field"),
        ({"groups": ["a"], "offsets": [_ROW, {**_ROW, "translated": 7}]}, "offsets.1", "e.t-0 is listed twice"),
        ({"groups": [""], "offsets": [_ROW]}, "groups.0", "at least 1 character"),
    ],
)
def test_offsets_that_say_too_little(stage: Stage, body: dict[str, Any], field: str, said: str) -> None:
    answer = stage.client("op").post(f"{PATH}/offsets", json=body)
    assert said in fault(answer, 422)[1]
    assert answer.json()["errors"][0]["field"] == field


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"lists": {"topics": ["orders.("]}}, "topics"),
        ({"lists": {"topcs": ["orders"]}}, "it may be topics"),
        ({"lists": {"topics": ["a", " "]}}, "empty expression"),
        ({"reset": ["all"]}, "there is no list 'all'"),
    ],
)
def test_lists_that_cannot_be_used_name_the_place(stage: Stage, body: dict[str, Any], said: str) -> None:
    name = f"srm_filters__{FLOW.source}__{FLOW.target}"
    stage.scheduler.variables[name] = '{"topics": ["orders"]}'
    for method, path in (("PUT", "/filters"), ("POST", "/filters/preview")):
        code, message = fault(stage.client("op").request(method, PATH + path, json=body), 422)
        assert code == "invalid_filter"
        assert said in message
    assert stage.scheduler.variables[name] == '{"topics": ["orders"]}'


@pytest.mark.parametrize("body", [{}, {"note": "exclude", "revision": None}])
def test_an_edit_of_nothing_is_refused(stage: Stage, body: dict[str, Any]) -> None:
    code, message = fault(stage.client("op").put(f"{PATH}/filters", json=body), 422)
    assert (code, message) == ("invalid_parameter", "lists: say which to edit, in lists or reset")


def test_an_edit_of_what_somebody_edited_meanwhile_is_refused(stage: Stage) -> None:
    name = f"srm_filters__{FLOW.source}__{FLOW.target}"
    stage.scheduler.variables[name] = '{"topics": ["orders"]}'
    body = {"lists": {"topics": ["invoices"]}, "revision": "0123456789abcdef"}
    code, message = fault(stage.client("op").put(f"{PATH}/filters", json=body), 409)
    assert code == "edit_conflict"
    assert name in message
    assert stage.scheduler.variables[name] == '{"topics": ["orders"]}'


def test_a_flow_without_a_dag_of_its_own_does_not_touch_the_other_ones(stage: Stage) -> None:
    other, refused = FlowName("a.b", "c"), FlowName("a", "b.c")
    aliases = ("a", "a.b", "b.c", "c")
    servers = "".join(f"{alias}.bootstrap.servers = {alias}.example:1\n" for alias in aliases)
    head = f"clusters = {', '.join(aliases)}\nreplication.policy.separator = _\n"
    stage.file.write_text(f"{head}{servers}{other}.enabled = true\n{refused}.enabled = true\n")
    client = stage.client("user")
    for verb in ("pause", "resume", "runs"):
        answer = client.post(f"/api/v2/flows/{refused.source}/{refused.target}/{verb}", json={})
        code, message = fault(answer, 503)
        assert code == "configuration_broken"
        assert "the same DAG id as a.b->c, srm.a.b.c" in message
    assert not stage.scheduler.started
