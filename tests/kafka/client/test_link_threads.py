"""Links of several threads at once: kafka-python makes its codecs when they are first used, and not for two threads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from srm_common.testing import LocalKafka

pytestmark = pytest.mark.kafka

# In a fresh interpreter nothing was used yet; threads change places as often as they can.
_PROGRAM = """
import gc, sys, threading
from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.client.links.link import ClusterLink

def connect():
    with ClusterLink(ClusterSettings.plaintext("a", sys.argv[1])) as link:
        link.run(lambda: link.open(timeout_seconds=120))

sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=connect) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
gc.collect()
connect()
print("connected")
"""


def test_threads_that_connect_first_leave_the_codecs_whole(source_kafka: LocalKafka) -> None:
    for _ in range(3):
        command = [sys.executable, "-c", _PROGRAM, source_kafka.bootstrap_servers]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stdout) == (0, "connected\n"), done.stderr[-2000:]
        assert "Error" not in done.stderr
