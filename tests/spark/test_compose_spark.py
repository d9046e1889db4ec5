"""The Spark containers' start script and health check against a real standalone master and worker."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from srm_common.testing import ReservedPort
from tests.spark.standalone import temporary_environment

DOCKER = Path(__file__).parents[2] / "docker"


def wait_for(what: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + 180
    while not what():
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.2)


def test_master_and_worker_become_healthy(tmp_path: Path) -> None:
    ports = [ReservedPort() for _ in range(3)]
    master, master_page, worker_page = (port.number for port in ports)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "SPARK_MASTER_HOST": "127.0.0.1",
        "SPARK_MASTER_PORT": str(master),
        "SPARK_MASTER_WEBUI_PORT": str(master_page),
        "SPARK_WORKER_WEBUI_PORT": str(worker_page),
        "SPARK_WORKER_CORES": "1",
        "SPARK_WORKER_MEMORY": "512m",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        **temporary_environment(tmp_path),
        "HEALTH_SPARK_MASTER_URL": f"http://127.0.0.1:{master_page}",
        "HEALTH_SPARK_WORKER_URL": f"http://127.0.0.1:{worker_page}",
    }

    def healthy(part: str) -> bool:
        command = [sys.executable, str(DOCKER / "healthcheck.py"), part]
        return subprocess.run(command, env=environment, capture_output=True, timeout=300).returncode == 0

    log = tmp_path / "log"
    running: list[subprocess.Popen[bytes]] = []
    try:
        with log.open("ab") as output:
            for part in (["master"], ["worker", f"spark://127.0.0.1:{master}"]):
                running.append(
                    subprocess.Popen([DOCKER / "spark.sh", *part], env=environment, stdout=output, stderr=output)
                )
                wait_for(lambda part=part: healthy(f"spark-{part[0]}"), log)  # type: ignore[misc]
            running[0].kill()
            running[0].wait(120)
            wait_for(lambda: not healthy("spark-master"), log)
    finally:
        for process in running:
            process.kill()
            process.wait(300)
        for port in ports:
            port.release()
