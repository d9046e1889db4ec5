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
from srm_common.domain.metrics.stats import PERCENTILES
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
    SCHEDULER_UP,
    STORE_UP,
)
from srm_common.rest.prometheus.topic_series import PARTITION_SERIES, TOPIC_SERIES
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
    """Of panels and of annotations."""
    annotations = json.loads(DASHBOARD.read_text())["annotations"]["list"]
    return [one["expr"] for one in (*(target for panel in panels() for target in panel["targets"]), *annotations)]


def variables() -> list[str]:
    """Queries of the lists to choose from."""
    found = json.loads(DASHBOARD.read_text())["templating"]["list"]
    return [one["query"]["query"] for one in found if one["type"] == "query"]


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
    exported = {line.split("{")[0] for line in text.splitlines() if not line.startswith("#")} | {
        "srm_flow_failing_since_timestamp_seconds"  # of failing flows only
    }
    for expression in (RULES.read_text().partition("groups:")[2], *expressions(), *variables()):
        asked = set(re.findall(r"\bsrm_\w+", expression))
        assert asked, expression
        assert asked <= exported


def test_each_percentile_has_a_panel_by_flow_and_one_of_them_by_topic() -> None:
    asked = " ".join(expressions())
    for share in PERCENTILES.values():
        assert f"histogram_quantile({share}, sum by (source, target, le) (rate({FLOW_LATENCY.name}_bucket{{" in asked
    assert re.findall(r"topk\(10, srm_topic_replication_latency_(p\d+)_seconds", asked) == ["p95"]


def test_panels_do_not_cover_each_other() -> None:
    cells = [
        (x, y)
        for one in json.loads(DASHBOARD.read_text())["panels"]
        for x in range(one["gridPos"]["x"], one["gridPos"]["x"] + one["gridPos"]["w"])
        for y in range(one["gridPos"]["y"], one["gridPos"]["y"] + one["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


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
        meant = (beginning + name for beginning in beginnings if beginning + name in there)
        found.add(name if not name.startswith("_") else next(meant, f"{first}…{name}"))
    return found


def test_every_series_of_our_own_is_explained_and_no_other_is() -> None:
    single = (HEALTH, ALARM, BUILD_INFO, STORE_UP, SCHEDULER_UP, HEARTBEAT_WRITTEN, HEARTBEAT_LATENCY)
    declared: tuple[Series[Any], ...] = (*FLOW_SERIES, *GROUP_SERIES, *TOPIC_SERIES, *PARTITION_SERIES, *single)
    there = {series.name for series in declared} | {FLOW_LATENCY.name}
    rows = re.findall(
        r"^\| (`srm_[^|]+) \|", (FILES.parent / "monitoring.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert set().union(*(series_of_a_row(row, there) for row in rows)) == there
