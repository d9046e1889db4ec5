#!/bin/sh
# A Spark standalone master or worker out of the installed pyspark, in the foreground.
#   spark.sh master                        SPARK_MASTER_HOST, SPARK_MASTER_PORT, SPARK_MASTER_WEBUI_PORT
#   spark.sh worker spark://MASTER:7077    SPARK_WORKER_CORES, SPARK_WORKER_MEMORY, SPARK_WORKER_WEBUI_PORT
set -eu
SPARK_HOME=$(python -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
export SPARK_HOME
export SPARK_MASTER_HOST="${SPARK_MASTER_HOST:-$(hostname)}"
export SPARK_WORKER_DIR="${SPARK_WORKER_DIR:-/tmp/spark-work}"
case ${1:-} in
    master) exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master ;;
    worker) exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker "$2" ;;
    *) echo "usage: spark.sh master | worker spark://MASTER:7077" >&2; exit 2 ;;
esac
