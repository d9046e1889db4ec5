"""The wall clock of a cluster's brokers, shifted while they run."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

from tests.kafka.judge import need_compiler

_SOURCE = Path(__file__).parent / "java" / "BrokerClock.java"


class BrokerClock:
    """For the brokers that are started with ``java_option``; files go to ``folder``."""

    def __init__(self, folder: Path) -> None:
        need_compiler()
        self._shift = folder / "shift"
        self.shift(0.0)
        subprocess.run(["javac", "-d", str(folder), str(_SOURCE)], check=True, timeout=180)
        agent = folder / "broker-clock.jar"
        with zipfile.ZipFile(agent, "w") as jar:
            jar.writestr("META-INF/MANIFEST.MF", "Premain-Class: BrokerClock\n")
            jar.write(folder / "BrokerClock.class", "BrokerClock.class")
        self.java_option = f"-javaagent:{agent}={self._shift}"

    def shift(self, seconds: float) -> None:
        """Ahead of the machine's, or behind it; counts within a tenth of a second."""
        new = self._shift.with_suffix(".new")
        new.write_text(str(round(seconds * 1000)))
        os.replace(new, self._shift)
