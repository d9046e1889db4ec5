"""What spark-submit takes from a checkout; the wheel has the application itself, ``srm_common/spark_jobs``."""
