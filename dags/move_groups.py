"""The DAGs that move consumer groups between clusters: srm.failover, srm.failback, srm.switch_direction."""

from srm_common.airflow_bridge import move_dags

globals().update(move_dags())
