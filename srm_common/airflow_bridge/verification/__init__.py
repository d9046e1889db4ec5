"""The DAG ``srm.verify``, which proves the copies of a flow."""
