"""For an Airflow that takes plugins from a folder only; where the wheel is installed, its entry point does this."""

from srm_common.airflow_bridge.plugin import SrmPlugin

__all__ = ["SrmPlugin"]
