"""One Airflow DAG per flow of the configuration file that SRM_CONFIG names."""

from srm_common.airflow_bridge import flow_dags

globals().update(flow_dags())
