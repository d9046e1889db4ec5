"""What tasks keep of a flow from run to run: in its asset's state, which Airflow has since 3.3, else in variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Asset, Context

#: Where Airflow's context has the states of a task's assets.
_OF_CONTEXT = "asset_state_store"


class VariableState:
    """Airflow variables ``srm_state__<asset>__<key>`` in place of an asset's state."""

    def __init__(self, asset: str) -> None:
        self._prefix = f"srm_state__{asset}__"

    def get(self, key: str, default: Any = None) -> Any:
        from airflow.sdk import Variable

        return Variable.get(self._prefix + key, default=default, deserialize_json=True)

    def set(self, key: str, value: Any) -> None:
        from airflow.sdk import Variable

        Variable.set(self._prefix + key, value, serialize_json=True)


class _VariableStates:
    def __getitem__(self, asset: Asset) -> VariableState:
        return VariableState(asset.name)


def ensure_asset_state(context: Context) -> None:
    """The context of a task has a place for the states of assets afterwards."""
    if _OF_CONTEXT not in context:
        mutable: Any = context
        mutable[_OF_CONTEXT] = _VariableStates()


def asset_state_outside_of_tasks(asset: str) -> Any:
    """The same state for Airflow's triggerer."""
    try:
        # Made for tasks; the triggerer answers the same questions.
        from airflow.sdk.execution_time.context import AssetStateStoreAccessor
    except ImportError:
        return VariableState(asset)
    return AssetStateStoreAccessor(name=asset)
