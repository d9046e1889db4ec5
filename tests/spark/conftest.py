"""One Spark application for the tests of this folder that need one in their own process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from srm_common.replication.spark.spark_application import spark_context
from srm_common.replication.spark.spark_conf import local_master, spark_settings

if TYPE_CHECKING:
    from pyspark import SparkContext


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkContext]:
    """Two slots at a time, with this project's settings."""
    context = spark_context(lambda master: spark_settings(master, 2, app_name="tests"), local_master(2))
    gateway = context._gateway
    yield context
    context.stop()
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)
