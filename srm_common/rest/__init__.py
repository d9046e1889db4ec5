"""The REST API and the Replications page: one web app, for Airflow's plugin and for ``srm-control serve``."""
