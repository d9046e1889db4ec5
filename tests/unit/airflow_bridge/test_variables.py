"""Where tasks keep what they remember, in an Airflow with states of assets and in one without.

Airflow is imported by the tests, not by this file: it takes more than a second, and each process of the ring imports
all files.
"""

from __future__ import annotations

from typing import Any

import pytest


def test_airflows_own_place_is_left_alone() -> None:
    from srm_common.airflow_bridge.variables import ensure_asset_state

    states = object()
    context: Any = {"asset_state_store": states}
    ensure_asset_state(context)
    assert context["asset_state_store"] is states


def test_without_one_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk import Asset

    from srm_common.airflow_bridge.variables import ensure_asset_state

    # As Airflow has variables from its environment; a flow in a scheduler of such an Airflow is in make compat.
    monkeypatch.setenv("AIRFLOW_VAR_SRM_STATE__SRM.A.B__STATUS", '{"state": "running"}')
    context: Any = {}
    ensure_asset_state(context)
    asset = Asset(name="srm.a.b", uri="srm://a/b", group="srm")
    assert context["asset_state_store"][asset].get("status") == {"state": "running"}
