from __future__ import annotations

from pathlib import Path

from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.reference import metrics_reference

ROOT = Path(__file__).parents[4]


def test_the_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert page == metrics_reference(), "run: python -m srm_common.domain.metrics.reference > docs/metrics.md"


def test_every_metric_is_on_the_page() -> None:
    page = metrics_reference()
    assert [metric for metric in Metric if f"| `{metric}` |" not in page] == []
