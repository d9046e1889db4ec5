"""The rules and the dashboard in docs/monitoring: they load, do what they say, and ask for series that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from srm_common.domain.health.alarms import anchor
from srm_common.domain.health.health import AlarmKind, HealthState
from srm_common.rest.prometheus.exposition import Series
from srm_common.rest.prometheus.families import ServiceFigures, render
from srm_common.rest.prometheus.series import (
    ALARM,
    BUILD_INFO,
    FLOW_LATENCY,
    FLOW_SERIES,
    GROUP_SERIES,
    HEALTH,
    HEARTBEAT_LATENCY,
    HEARTBEAT_WRITTEN,
    PARTITION_SERIES,
    SCHEDULER_UP,
    STORE_UP,
    TOPIC_SERIES,
)
from tests.unit.rest.figures import figures

HERE = Path(__file__).parent
FILES = Path(__file__).parents[3] / "docs" / "monitoring"
RULES, DASHBOARD = FILES / "alert-rules.yaml", FILES / "grafana-dashboard.json"

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="no promtool; scripts/setup.sh --tests installs it, or says how"
)


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def expressions() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]


def promtool(*arguments: str, folder: Path) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_the_rules_alert_of_what_they_should(tmp_path: Path) -> None:
    for file in (RULES, HERE / "alert-rules-test.yaml"):
        shutil.copy(file, tmp_path)
    promtool("check", "rules", RULES.name, folder=tmp_path)
    promtool("test", "rules", "alert-rules-test.yaml", folder=tmp_path)


def test_every_alarm_has_a_rule_and_every_rule_an_entry_in_the_docs() -> None:
    expressions = " ".join(rule["expr"] for rule in rules())
    for kind in AlarmKind:
        assert f'kind="{kind}"' in expressions
    entries = {f"operations.md#{anchor(what)}" for what in (*AlarmKind, *HealthState)}
    for rule in rules():
        assert rule["annotations"]["entry"] in entries, rule["alert"]


def test_all_series_that_are_asked_for_exist() -> None:
    text = render(ServiceFigures("1", True, True), [figures()])
    exported = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")} | {
        "srm_flow_failing_since_timestamp_seconds"  # of failing flows only
    }
    asked = set(re.findall(r"\bsrm_[a-z_]+", RULES.read_text().partition("groups:")[2] + " ".join(expressions())))
    assert asked
    assert asked <= exported


@needs_promtool
def test_every_panel_has_a_query_that_prometheus_can_read(tmp_path: Path) -> None:
    assert len({panel["id"] for panel in panels()}) == len(panels()) > 10
    recorded = [{"record": f"panel:{n}", "expr": expression} for n, expression in enumerate(expressions())]
    (tmp_path / "panels.yaml").write_text(json.dumps({"groups": [{"name": "panels", "rules": recorded}]}))
    promtool("check", "rules", "panels.yaml", folder=tmp_path)


def series_of_a_row(row: str, there: set[str]) -> set[str]:
    """The names in a row of the table in docs/monitoring.md. One that begins with an underscore stands in the place of
    the end of the row's first: `srm_topic_lag_records`, `_partitions` is srm_topic_partitions, too."""
    first, *others = re.findall(r"`(\w+)`", row)
    parts = first.split("_")
    found = {first}
    for name in others:
        beginnings = ["_".join(parts[:length]) for length in range(len(parts) - 1, 0, -1)]
        meant = (one + name for one in beginnings if one + name in there)
        found.add(name if not name.startswith("_") else next(meant, f"{first}…{name}"))
    return found


def test_every_series_of_our_own_is_explained_and_no_other_is() -> None:
    single = (HEALTH, ALARM, BUILD_INFO, STORE_UP, SCHEDULER_UP, HEARTBEAT_WRITTEN, HEARTBEAT_LATENCY)
    declared: tuple[Series[Any], ...] = (*FLOW_SERIES, *GROUP_SERIES, *TOPIC_SERIES, *PARTITION_SERIES, *single)
    there = {one.name for one in declared} | {FLOW_LATENCY.name}
    rows = re.findall(
        r"^\| (`srm_[^|]+) \|", (FILES.parent / "monitoring.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert set().union(*(series_of_a_row(row, there) for row in rows)) == there
