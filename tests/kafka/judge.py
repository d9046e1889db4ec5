"""MirrorMaker 2's own classes as a judge of what we write."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from srm_common.testing import LocalKafka
from srm_common.testing.artifacts import mirror_maker_jars

_SOURCE = Path(__file__).parent / "java" / "Mm2Judge.java"


def mm2_reads(kafka: LocalKafka, *questions: tuple[str, str]) -> list[list[str]]:
    """The fields of each line that ``Mm2Judge`` prints for (what, topic or alias/group)."""
    javac = shutil.which("javac")
    if javac is None:
        pytest.skip("needs a Java compiler: apt-get install openjdk-17-jdk-headless")
    jars = f"{mirror_maker_jars()}/*"
    words = [word for question in questions for word in question]
    done = subprocess.run(
        ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", jars, str(_SOURCE), kafka.bootstrap_servers, *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
