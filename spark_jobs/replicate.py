"""The Spark application that copies one flow, as a file for spark-submit."""

import sys

from srm_common.spark_jobs.replicate import main

if __name__ == "__main__":
    sys.exit(main())
