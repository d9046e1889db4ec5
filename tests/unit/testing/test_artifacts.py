"""Fetching of Kafka's jars: what counts as complete, what is tried again, what is said. Ivy is a small script here."""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path

import pytest

from srm_common.errors import LocalKafkaError
from srm_common.testing import artifacts
from srm_common.testing.artifacts import MARKER, Artifact, fetch, has_kraft, is_complete, logging_binding
from srm_common.testing.java import java_command

WANTED = (Artifact("org.example", "thing", "1.0"),)

# Stands for `java -jar ivy.jar ...`: counts its calls, fails the first FAILURES of them, then writes a real jar.
SCRIPT = """#!/bin/sh
echo x >> "$CALLS"
echo "$@" > "$CALLS.arguments"
calls=$(wc -l < "$CALLS")
if [ "$calls" -le "$FAILURES" ]; then echo "$WORDS"; exit "$CODE"; fi
for last; do :; done
folder=$(dirname "$last")
mkdir -p "$folder"
cp "$JAR" "$folder/thing-1.0.jar"
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(SCRIPT)
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    jar = tmp_path / "whole.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("a.txt", "content")
    counted = tmp_path / "calls"
    counted.write_text("")
    settings = {
        "JAVA_HOME": str(tmp_path),
        "SRM_CACHE": str(tmp_path / "cache"),
        "SRM_IVY_JAR": "ivy.jar",
        "CALLS": str(counted),
        "FAILURES": "0",
        "WORDS": "",
        "CODE": "1",
        "JAR": str(jar),
    }
    for key, value in settings.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(artifacts, "RETRY_WAITS_SECONDS", (0.0, 0.0))
    return counted


def count(calls: Path) -> int:
    return len(calls.read_text().splitlines())


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.usefixtures("no_proxies")
def test_java_is_told_of_the_proxies_which_it_does_not_look_for(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://user:secret@proxy.corp:3128")
    monkeypatch.setenv("no_proxy", ".corp, localhost,registry:8081")
    fetch(WANTED, tmp_path / "jars")
    arguments = calls.with_name("calls.arguments").read_text()
    assert arguments.startswith(
        "-Dhttps.proxyHost=proxy.corp -Dhttps.proxyPort=3128 -Dhttp.nonProxyHosts=localhost|127.*|"
    )
    assert "|corp|*.corp|localhost|*.localhost|registry|*.registry -jar " in arguments
    assert "secret" not in arguments

    monkeypatch.setenv("https_proxy", "http://proxy:port")
    with pytest.raises(LocalKafkaError, match="HTTPS_PROXY must be an address such as"):
        fetch(WANTED, tmp_path / "more")


@pytest.mark.usefixtures("no_proxies")
def test_without_proxies_java_is_told_nothing(calls: Path, tmp_path: Path) -> None:
    fetch(WANTED, tmp_path / "jars")
    assert calls.with_name("calls.arguments").read_text().startswith("-jar ")


def test_what_is_complete_is_not_fetched_again(calls: Path, tmp_path: Path) -> None:
    folder = fetch(WANTED, tmp_path / "jars")
    assert sorted(os.listdir(folder)) == [MARKER, "thing-1.0.jar"]
    assert fetch(WANTED, folder) == folder
    assert count(calls) == 1


def test_a_failed_download_is_tried_again(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAILURES", "2")
    monkeypatch.setenv("WORDS", "[FAILED ] org.example#thing;1.0!thing.jar: timed out")
    fetch(WANTED, tmp_path / "jars")
    assert count(calls) == 3


def test_the_last_failure_is_told(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAILURES", "9")
    monkeypatch.setenv("WORDS", "[FAILED ] org.example#thing;1.0!thing.jar: timed out")
    with pytest.raises(LocalKafkaError, match=r"could not fetch org\.example:thing:1\.0 .*timed out"):
        fetch(WANTED, tmp_path / "jars")
    assert count(calls) == 3
    assert not (tmp_path / "jars").exists()


def test_what_does_not_exist_is_not_tried_again(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAILURES", "9")
    monkeypatch.setenv("WORDS", ":: org.example#thing;1.0: not found")
    with pytest.raises(LocalKafkaError, match="not found"):
        fetch(WANTED, tmp_path / "jars")
    assert count(calls) == 1


def test_a_damaged_jar_is_fetched_again(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = tmp_path / "damaged.jar"
    damaged.write_bytes(b"PK\x03\x04 half of a download")
    monkeypatch.setenv("JAR", str(damaged))
    with pytest.raises(LocalKafkaError, match=r"damaged download of thing-1\.0\.jar"):
        fetch(WANTED, tmp_path / "jars")
    assert count(calls) == 3


@pytest.mark.parametrize("harm", ["marker", "missing", "short", "other"])
def test_an_interrupted_or_harmed_folder_is_not_complete(calls: Path, tmp_path: Path, harm: str) -> None:
    folder = fetch(WANTED, tmp_path / "jars")
    assert is_complete(folder, WANTED)
    jar = folder / "thing-1.0.jar"
    wanted: tuple[Artifact, ...] = WANTED
    if harm == "marker":
        (folder / MARKER).unlink()
    elif harm == "missing":
        jar.unlink()
    elif harm == "short":
        jar.write_bytes(jar.read_bytes()[:-1])
    else:
        wanted = (*WANTED, Artifact("org.example", "more", "1.0"))
    assert not is_complete(folder, wanted)
    fetch(WANTED, folder)
    assert is_complete(folder, WANTED)


def test_each_major_version_gets_the_logging_it_speaks() -> None:
    assert {a.name for a in logging_binding("4.3.1")} == {"log4j-core", "log4j-slf4j-impl"}
    assert {a.name for a in logging_binding("3.3.2")} == {"reload4j", "slf4j-reload4j"}
    with pytest.raises(LocalKafkaError, match="'newest' is not a Kafka version"):
        logging_binding("newest")


def test_a_missing_java_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(LocalKafkaError, match="openjdk-17-jre-headless"):
        java_command()


def test_versions_before_3_3_have_a_zookeeper() -> None:
    versions = ("2.8.2", "3.2.3", "3.3.2", "3.9.1", "4.3.1")
    assert [version for version in versions if not has_kraft(version)] == ["2.8.2", "3.2.3"]
