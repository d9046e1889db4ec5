"""DAGs that have runs of all flows: none of them makes the others wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from srm_common.airflow_bridge import move_dags, verify_dags

pytestmark = pytest.mark.airflow


@pytest.mark.parametrize(("clusters", "runs"), [(2, 16), (5, 40)])
def test_there_may_be_two_runs_of_each_flow(
    clusters: int, runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__MAX_ACTIVE_RUNS_PER_DAG", "1")
    aliases = [f"c{number}" for number in range(clusters)]
    lines = [f"clusters = {', '.join(aliases)}", *(f"{alias}.bootstrap.servers = {alias}:1" for alias in aliases)]
    lines += [f"{one}->{other}.enabled = true" for one in aliases for other in aliases if one != other]
    file = tmp_path / "srm.properties"
    file.write_text("\n".join(lines))
    found = {**move_dags(file), **verify_dags(file)}
    assert {dag_id: dag.max_active_runs for dag_id, dag in found.items()} == dict.fromkeys(
        ("srm.failover", "srm.failback", "srm.switch_direction", "srm.verify"), runs
    )
