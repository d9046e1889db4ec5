"""Kafka's own ``RemoteClusterUtils`` and ``MirrorClient`` as a judge of our library.

Questions: ``hops:ALIAS``, ``upstream:``, ``heartbeats:``, ``checkpoints:``, ``remote:`` or ``remote:ALIAS``,
``group:ALIAS/GROUP``, ``groups:ALIAS/EXPRESSION``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from srm_common.client import ReplicationClient
from srm_common.testing.artifacts import mirror_maker_jars

_PROGRAM = Path(__file__).parent / "java" / "RemoteClusterJudge.java"


Answers = dict[str, list[list[str]]]


def judged(properties: Mapping[str, str], *questions: str) -> Answers:
    """What our library answers: lines of fields by question. Fails where Kafka's answers otherwise."""
    ours = _ours(properties, questions)
    for question, answer in _theirs(properties, questions).items():
        if question.startswith("remote:"):
            # MirrorClient takes dotted state topics that are not its own for copies.
            answer = [[topic for topic in line if not topic.endswith(".internal")] for line in answer]
        assert sorted(ours[question]) == sorted(answer), question
    return ours


def _theirs(properties: Mapping[str, str], questions: tuple[str, ...]) -> Answers:
    if shutil.which("javac") is None:
        pytest.skip("no Java compiler; scripts/setup.sh --tests installs it, or says how")
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{mirror_maker_jars()}/*", str(_PROGRAM)]
    command += [*(f"{key}={value}" for key, value in properties.items()), *questions]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answers: Answers = {question: [] for question in questions}
    for line in done.stdout.splitlines():
        question, *fields = line.split("\t")
        if question in answers:
            answers[question].append(fields)
    return answers


def _ours(properties: Mapping[str, str], questions: tuple[str, ...]) -> Answers:
    answers: Answers = {}
    with ReplicationClient(properties) as client:
        for question in questions:
            what, _, about = question.partition(":")
            alias, _, groups = about.partition("/")
            found: dict[str, Any] = {}
            match what:
                case "hops":
                    answers[question] = [[str(client.replication_hops(about))]]
                case "upstream":
                    answers[question] = [sorted(client.upstream_clusters())]
                case "heartbeats":
                    answers[question] = [sorted(client.heartbeat_topics())]
                case "checkpoints":
                    answers[question] = [sorted(client.checkpoint_topics())]
                case "remote":
                    answers[question] = [sorted(client.remote_topics(about or None))]
                case "group":
                    found = {groups: client.translated_offsets(alias, groups)}
                case "groups":
                    found = client.translated_offsets_of_groups(alias, re.compile(groups))
            if what in ("group", "groups"):
                answers[question] = [
                    [group, place.topic, str(place.partition), str(at.offset), at.metadata]
                    for group, places in found.items()
                    for place, at in places.items()
                ]
    return answers
