"""The process from which Spark forks Python workers, with their imports done: workers start at no cost.

Spark runs it by ``spark.python.daemon.module``, for local masters only: elsewhere the package may have to reach the
workers first, and Spark says clearly that a task cannot be imported, but not that the daemon cannot.
"""

from __future__ import annotations

import gc
import os

from srm_common.replication.spark.installed_pyspark import prefer_installed_pyspark

prefer_installed_pyspark()

import pyspark.worker  # noqa: E402, F401
from pyspark.daemon import manager  # noqa: E402

import srm_common.replication.slots.slot  # noqa: E402, F401
from srm_common.records.loading import CHANGES_RECORDS, load  # noqa: E402
from srm_common.replication.spark.build import this_build  # noqa: E402
from srm_common.replication.spark.spark_pass import CLOSES_HOLES  # noqa: E402
from srm_common.wire.reencoding import merging  # noqa: E402

this_build()
if CHANGES_RECORDS in os.environ:
    load()
if CLOSES_HOLES in os.environ:
    merging.load()
# Workers collect garbage after each task; what they all share is none, and stays in shared memory untouched.
gc.freeze()

if __name__ == "__main__":
    manager()
