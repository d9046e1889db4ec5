"""Kafka's own ``RemoteClusterUtils`` and ``MirrorClient`` as a judge of our library."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from srm_common.testing.artifacts import mirror_maker_jars

_PROGRAM = Path(__file__).parent / "java" / "RemoteClusterJudge.java"


def remote_cluster_utils(properties: Mapping[str, str], *questions: str) -> dict[str, list[list[str]]]:
    """The answers by question: a list of lines, each a list of fields.

    Questions: ``hops:ALIAS``, ``upstream:``, ``heartbeats:``, ``checkpoints:``, ``remote:`` or ``remote:ALIAS``,
    ``group:ALIAS/GROUP``, ``groups:ALIAS/EXPRESSION``.
    """
    if shutil.which("javac") is None:
        pytest.skip("needs a Java compiler: apt-get install openjdk-17-jdk-headless")
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{mirror_maker_jars()}/*", str(_PROGRAM)]
    command += [*(f"{key}={value}" for key, value in properties.items()), *questions]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answers: dict[str, list[list[str]]] = {question: [] for question in questions}
    for line in done.stdout.splitlines():
        question, *fields = line.split("\t")
        if question in answers:
            answers[question].append(fields)
    return answers
