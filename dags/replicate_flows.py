"""One Airflow DAG per flow of the configuration file that SRM_CONFIG names, and one that watches them."""

from srm_common.airflow_bridge import flow_dags

globals().update(flow_dags())
