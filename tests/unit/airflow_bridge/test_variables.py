"""Where tasks keep what they remember, in an Airflow with states of assets and in one without."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import Asset

from srm_common.airflow_bridge.variables import ensure_asset_state

ASSET = Asset(name="srm.a.b", uri="srm://a/b", group="srm")


def test_airflows_own_place_is_left_alone() -> None:
    states = object()
    context: Any = {"asset_state_store": states}
    ensure_asset_state(context)
    assert context["asset_state_store"] is states


def test_without_one_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    # As Airflow has variables from its environment; a flow in a scheduler of such an Airflow is in make compat.
    monkeypatch.setenv("AIRFLOW_VAR_SRM_STATE__SRM.A.B__STATUS", '{"state": "running"}')
    context: Any = {}
    ensure_asset_state(context)
    assert context["asset_state_store"][ASSET].get("status") == {"state": "running"}
