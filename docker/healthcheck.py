"""Exit code 0 when a part answers and says that it is well; for the health checks of docker-compose.yaml.

healthcheck.py airflow metadatabase|scheduler|dag_processor|triggerer    asks Airflow's API server
healthcheck.py spark-master                                              asks the master on this host
healthcheck.py spark-worker                                              the worker on this host has found its master
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from typing import Any

AIRFLOW = os.environ.get("HEALTH_AIRFLOW_URL", "http://airflow-api-server:8080") + "/api/v2/monitor/health"
SPARK_MASTER = os.environ.get("HEALTH_SPARK_MASTER_URL", "http://localhost:8080") + "/json/"
SPARK_WORKER = os.environ.get("HEALTH_SPARK_WORKER_URL", "http://localhost:8081") + "/json/"
TIMEOUT_SECONDS = 8.0
# Docker gives its client's proxies to containers, and those know none of them.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def fetch(url: str) -> Any:
    with DIRECT.open(url, timeout=TIMEOUT_SECONDS) as answer:
        return json.load(answer)


def verdict(arguments: list[str]) -> str:
    """Empty when all is well, else what is wrong."""
    match arguments:
        case ["airflow", part]:
            found = (fetch(AIRFLOW).get(part) or {}).get("status")
            return "" if found == "healthy" else f"Airflow says {part} is {found}"
        case ["spark-master"]:
            status = fetch(SPARK_MASTER)["status"]
            return "" if status == "ALIVE" else f"the Spark master is {status}"
        case ["spark-worker"]:
            master = fetch(SPARK_WORKER).get("masterwebuiurl")
            return "" if master else "the Spark worker has not found its master"
        case _:
            return __doc__ or ""


if __name__ == "__main__":
    try:
        fault = verdict(sys.argv[1:])
    except (OSError, ValueError) as failure:
        fault = f"no answer: {failure}"
    if fault:
        print(fault, file=sys.stderr)
    sys.exit(1 if fault else 0)
