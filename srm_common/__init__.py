"""Replication of Kafka topics between clusters: library behind the DAGs, the Spark job and ``srm-control``."""

__version__ = "0.2.0.dev0"
