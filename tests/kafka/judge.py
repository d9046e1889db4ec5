"""MirrorMaker 2's own classes as a judge of what we write."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings
from srm_common.kafka.groups.group_commits import other_groups
from srm_common.testing import LocalKafka
from srm_common.testing.artifacts import mirror_maker_jars
from tests.kafka.records import eventually

_SOURCES = Path(__file__).parent / "java"
_SECONDS = 180


def mm2_reads(kafka: LocalKafka, *questions: tuple[str, str]) -> list[list[str]]:
    """The fields of each line that ``Mm2Judge`` prints for (what, topic or alias/group)."""
    words = [word for question in questions for word in question]
    return _lines("Mm2Judge", kafka.bootstrap_servers, *words)


def mm2_checkpoints(
    source: LocalKafka, target: LocalKafka, flow: FlowSettings, topics: str, groups: str, wanted: int
) -> dict[tuple[str, str, int], tuple[int, int]]:
    """What MirrorMaker 2's own checkpoint connector makes of a flow's offset syncs, without writing it.

    Waits for ``wanted`` checkpoints. (group, remote topic, partition) -> (upstream, downstream offset).
    """
    lines = _lines(
        "Mm2Checkpoints",
        source.bootstrap_servers,
        target.bootstrap_servers,
        flow.name.source,
        flow.name.target,
        topics,
        groups,
        flow.offset_syncs_topic_location,
        str(wanted),
    )
    return {(line[0], line[1], int(line[2])): (int(line[3]), int(line[4])) for line in lines}


def mm2_metrics(pid: int) -> list[tuple[str, str, dict[str, str]]]:
    """What a running MirrorMaker 2 has in JMX: (domain, attribute, properties of the bean's name)."""
    return [
        (domain, attribute, dict(one.partition("=")[::2] for one in properties))
        for domain, attribute, *properties in _lines("Mm2Beans", str(pid))
    ]


@contextlib.contextmanager
def share_group(cluster: ClusterSettings, group: str, topic: str) -> Iterator[None]:
    """A share group with one member; no Python client is able to be one."""
    command = _java("ShareMember", cluster.bootstrap_servers, group, topic)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as member:
        try:
            eventually(lambda: group in [one.name for one in other_groups(cluster)[0]], 300, f"no group {group}")
            yield
        finally:
            member.communicate(timeout=_SECONDS)


def _lines(program: str, *arguments: str) -> list[list[str]]:
    done = subprocess.run(_java(program, *arguments), capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]


def _java(program: str, *arguments: str) -> list[str]:
    return [*java_command(program), *arguments]


def java_command(program: str, options: Sequence[str] = ()) -> list[str]:
    """What runs a program of the folder ``java`` with Kafka's classes, without its arguments."""
    need_compiler()
    own = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{mirror_maker_jars()}/*"]
    return ["java", *own, *options, str(_SOURCES / f"{program}.java")]


def need_compiler() -> None:
    """Skip a test that compiles Java where there is no compiler."""
    if shutil.which("javac") is None:
        pytest.skip("no Java compiler; scripts/setup.sh --tests installs it, or says how")
