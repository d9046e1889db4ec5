"""The DAGs that move consumer groups: failover, failback, change of direction."""
