"""What is known of the flows, and what may be missing from it."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.rest.conftest import Stage
from tests.unit.rest.test_reads import get


def test_a_store_that_may_lack_reports_is_told_with_all_that_is_known(stage: Stage) -> None:
    notice = "CeleryExecutor may run tasks on several machines"
    told = Stage(replace(stage.context, store_notice=lambda: notice), stage.scheduler, stage.file, stage.database)
    good = get(stage, "/api/v2/flows")
    assert good["errors"] == []
    for path in ("/api/v2/flows", f"/api/v2/flows/{good['flows'][0]['source']}/{good['flows'][0]['target']}"):
        found = get(told, path)
        assert [(fault["code"], fault["message"]) for fault in found["errors"]] == [("store_not_shared", notice)]
    assert len(get(told, "/api/v2/flows")["flows"]) == len(good["flows"])
    assert get(told, "/api/v2/health")["status"] == "degraded"
    unheard = told.client().get("/api/v2/flows/nowhere/else")
    assert unheard.status_code == 404, "it is not doubtful whether there is such a flow"
