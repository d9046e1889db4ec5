"""The DAG that proves the copies of flows, or names the first difference: srm.verify."""

from srm_common.airflow_bridge import verify_dags

globals().update(verify_dags())
