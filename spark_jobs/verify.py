"""The Spark application that verifies the copies of one flow, as a file for spark-submit."""

import sys

from srm_common.spark_jobs.verify import main

if __name__ == "__main__":
    sys.exit(main())
