"""Kafka's own jars, downloaded once into a cache folder by the Ivy that PySpark bundles: no Maven, Docker or build
needed.

``$SRM_CACHE`` (default ``~/.cache/srm-kafka``) holds::

    ivy/                        Ivy's own download cache, shared by everything below
    kafka/<version>/*.jar       broker
    mirror-maker/<version>/*.jar  MirrorMaker 2 with the Connect runtime
    tools/<version>/*.jar       what kafka-consumer-groups.sh and its like run
    tiered/<version>/*.jar      Kafka's own tiered storage for tests, a plug-in of the broker
    kafka/<version>-<java>.jsa  classes as that Java keeps them, see class_archive.py

A folder counts as fetched only when its marker file, written last, lists the jars that are there with their sizes.
An interrupted or damaged fetch is therefore done again. A lock file keeps two processes from fetching at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from srm_common.account import home_folder
from srm_common.errors import LocalKafkaError, installing
from srm_common.testing.java import java_command

DEFAULT_KAFKA_VERSION = os.environ.get("SRM_KAFKA_VERSION", "4.3.1")

MARKER = ".complete.json"
# Downloads fail now and then; the waits add up to about a minute, longer than the usual hiccup of a mirror.
RETRY_WAITS_SECONDS = (2.0, 5.0, 15.0, 30.0)
FETCH_TIMEOUT_SECONDS = 900.0


@dataclass(frozen=True)
class Artifact:
    """Maven coordinates of one jar; its runtime dependencies come with it, unless it has a classifier."""

    organisation: str
    name: str
    version: str
    classifier: str = ""

    def __str__(self) -> str:
        parts = (self.organisation, self.name, self.version, self.classifier)
        return ":".join(part for part in parts if part)


def cache_folder() -> Path:
    """``$SRM_CACHE``, or ``~/.cache/srm-kafka``. Raises :class:`LocalKafkaError` where there is no home folder."""
    named, home = os.environ.get("SRM_CACHE"), home_folder()
    if not named and home is None:
        raise LocalKafkaError("this account has no home folder to keep downloads in; set SRM_CACHE to one")
    return Path(named or f"{home}/.cache/srm-kafka").expanduser().absolute()


def logging_binding(kafka_version: str) -> tuple[Artifact, ...]:
    """What makes Kafka log at all: its own binding is not a runtime dependency of the published artifacts.

    Kafka 4 logs through log4j 2, Kafka 3 through reload4j (KIP-653).
    """
    if major(kafka_version) >= 4:
        version = "2.25.4"
        return tuple(Artifact("org.apache.logging.log4j", name, version) for name in ("log4j-core", "log4j-slf4j-impl"))
    return (Artifact("ch.qos.reload4j", "reload4j", "1.2.26"), Artifact("org.slf4j", "slf4j-reload4j", "1.7.36"))


def major(kafka_version: str) -> int:
    """``"4.3.1"`` -> 4. Raises LocalKafkaError if it is not a version."""
    head = kafka_version.split(".", 1)[0]
    if not head.isdigit():
        raise LocalKafkaError(f"'{kafka_version}' is not a Kafka version; write it like {DEFAULT_KAFKA_VERSION}")
    return int(head)


def has_kraft(kafka_version: str) -> bool:
    """Whether brokers of this version need no ZooKeeper (production ready in 3.3, KIP-833)."""
    if major(kafka_version) != 3:
        return major(kafka_version) > 3
    minor = kafka_version.split(".")[1:2]
    return not (minor and minor[0].isdigit() and int(minor[0]) < 3)


def kafka_jars(version: str = DEFAULT_KAFKA_VERSION) -> Path:
    """Folder with the broker's jars, fetched when it is not there yet (about 40 MB, half a minute)."""
    wanted = (Artifact("org.apache.kafka", "kafka_2.13", version), *logging_binding(version))
    return fetch(wanted, cache_folder() / "kafka" / version)


def class_archive(version: str) -> Path:
    """The path of the broker's class-data archive for this machine's Java; it need not exist."""
    java = Path(java_command()[0]).resolve()
    made = hashlib.sha256(f"{java} {java.stat().st_mtime_ns}".encode()).hexdigest()[:12]
    return cache_folder() / "kafka" / f"{version}-{made}.jsa"


def mirror_maker_jars(version: str = DEFAULT_KAFKA_VERSION) -> Path:
    """Folder with MirrorMaker 2's jars, fetched when it is not there yet."""
    kafka = [Artifact("org.apache.kafka", name, version) for name in ("connect-mirror", "connect-runtime")]
    return fetch((*kafka, *logging_binding(version)), cache_folder() / "mirror-maker" / version)


def kafka_tools_jars(version: str = DEFAULT_KAFKA_VERSION) -> Path:
    """Folder with the jars of Kafka's command line tools, fetched when it is not there yet."""
    wanted = (Artifact("org.apache.kafka", "kafka-tools", version), *logging_binding(version))
    return fetch(wanted, cache_folder() / "tools" / version)


def tiered_storage_jars(version: str = DEFAULT_KAFKA_VERSION) -> Path:
    """Folder with ``LocalTieredStorage`` of Kafka's own tests (KIP-405), fetched when it is not there yet."""
    wanted = [Artifact("org.apache.kafka", name, version, "test") for name in ("kafka-storage", "kafka-clients")]
    return fetch(wanted, cache_folder() / "tiered" / version)


def fetch(artifacts: Sequence[Artifact], folder: Path) -> Path:
    """The artifacts and their runtime dependencies as jars in ``folder``; a complete folder is returned at once.

    Raises LocalKafkaError with Ivy's message when the artifacts do not exist or cannot be downloaded.
    """
    if is_complete(folder, artifacts):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _lock(folder.with_name(folder.name + ".lock")):
        if is_complete(folder, artifacts):
            return folder
        failure = ""
        for wait in (*RETRY_WAITS_SECONDS, None):
            failure = _fetch_once(artifacts, folder)
            if not failure:
                return folder
            if wait is None or "not found" in failure:
                break
            time.sleep(wait)
    raise LocalKafkaError(f"could not fetch {', '.join(_names(artifacts))} into {folder}: {failure}")


def is_complete(folder: Path, artifacts: Sequence[Artifact]) -> bool:
    """True when the marker was written for just these artifacts and every jar it lists is there in full size."""
    try:
        marker = json.loads((folder / MARKER).read_text())
        return marker["artifacts"] == _names(artifacts) and all(
            (folder / name).stat().st_size == size for name, size in marker["jars"].items()
        )
    except (FileNotFoundError, ValueError, KeyError):
        return False


def ivy_jar() -> Path:
    """The Ivy jar inside the installed PySpark, or ``$SRM_IVY_JAR``."""
    named = os.environ.get("SRM_IVY_JAR")
    if named:
        return Path(named)
    spec = importlib.util.find_spec("pyspark")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for jar in sorted(Path(place, "jars").glob("ivy-*.jar")):
            return jar
    raise LocalKafkaError(f"no Ivy to fetch Kafka with: install pyspark ({installing('spark')}) or set SRM_IVY_JAR")


def _names(artifacts: Sequence[Artifact]) -> list[str]:
    return [str(artifact) for artifact in artifacts]


def _fetch_once(artifacts: Sequence[Artifact], folder: Path) -> str:
    """One try. Empty text when the folder is in place, else the reason why not."""
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as scratch:
        jars = Path(scratch, "jars")
        description = Path(scratch, "ivy.xml")
        description.write_text(_ivy_file(artifacts))
        # "bundle" is the packaging of snappy-java and scala-logging; without it they are left out silently.
        command = [
            *java_command(), *_proxy_options(), "-jar", str(ivy_jar()), "-cache", str(cache_folder() / "ivy"),
            "-ivy", str(description), "-confs", "default", "-types", "jar", "bundle",
            "-retrieve", f"{jars}/[artifact]-[revision](-[classifier]).[ext]",
        ]  # fmt: skip
        if settings := os.environ.get("SRM_IVY_SETTINGS"):  # for example for a private mirror
            command += ["-settings", settings]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            return f"Ivy did not finish within {FETCH_TIMEOUT_SECONDS:.0f} s"
        if done.returncode != 0:
            return _reason(done.stdout + done.stderr)
        damaged = [jar for jar in sorted(jars.glob("*.jar")) if not _is_whole(jar)]
        if damaged:
            for jar in damaged:
                _forget(jar)
            return f"damaged download of {', '.join(jar.name for jar in damaged)}"
        if len(list(jars.glob("*.jar"))) < len(artifacts):
            return "Ivy retrieved fewer jars than requested"
        shutil.rmtree(folder, ignore_errors=True)
        sizes = {jar.name: jar.stat().st_size for jar in sorted(jars.glob("*.jar"))}
        os.replace(jars, folder)
        marker = folder / (MARKER + ".new")
        marker.write_text(json.dumps({"artifacts": _names(artifacts), "jars": sizes}, indent=1))
        os.replace(marker, folder / MARKER)
    return ""


def _proxy_options() -> list[str]:
    """Java's settings for the proxies that the environment names, which it does not look at. A proxy's login is left
    out: every user sees command lines."""
    named = urllib.request.getproxies()
    options = []
    for scheme in ("http", "https"):
        if written := named.get(scheme):
            try:
                proxy = urllib.parse.urlsplit(written if "://" in written else f"http://{written}")
                host, port = proxy.hostname, proxy.port or 80
            except ValueError:
                host = None
            if not host:
                raise LocalKafkaError(f"{scheme.upper()}_PROXY must be an address such as http://proxy:3128")
            options += [f"-D{scheme}.proxyHost={host}", f"-D{scheme}.proxyPort={port}"]
    if options:
        # Of both schemes. A name of NO_PROXY stands for what ends with it, too.
        direct = [name.strip().split(":")[0].lstrip(".") for name in named.get("no", "").split(",")]
        hosts = [pattern for name in direct if name for pattern in ((name,) if name == "*" else (name, f"*.{name}"))]
        options.append(f"-Dhttp.nonProxyHosts={'|'.join(('localhost', '127.*', *hosts))}")
    return options


def _ivy_file(artifacts: Sequence[Artifact]) -> str:
    wanted = "".join(_dependency(artifact) for artifact in artifacts)
    return (
        '<ivy-module version="2.0" xmlns:extra="http://ant.apache.org/ivy/extra">'
        '<info organisation="srm" module="local"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{wanted}</dependencies></ivy-module>'
    )


def _dependency(wanted: Artifact) -> str:
    name = quoteattr(wanted.name)
    coordinates = f"org={quoteattr(wanted.organisation)} name={name} rev={quoteattr(wanted.version)}"
    if not wanted.classifier:
        return f'<dependency {coordinates} conf="default->default"/>'
    return (
        f'<dependency {coordinates} transitive="false" conf="default->default"><artifact name={name} type="jar" '
        f'ext="jar" extra:classifier={quoteattr(wanted.classifier)}/></dependency>'
    )


def _reason(output: str) -> str:
    """The telling lines of Ivy's report."""
    marks = ("not found", "FAILED", "ERROR", "UNRESOLVED", "Exception", "impossible", "timed out")
    lines = [line.strip() for line in output.splitlines() if any(mark in line for mark in marks)]
    return "; ".join(dict.fromkeys(lines[:6])) or output.strip()[-300:] or "Ivy said nothing"


def _is_whole(jar: Path) -> bool:
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, EOFError, OSError):
        return False


def _forget(jar: Path) -> None:
    """Removes a damaged jar from Ivy's cache, else every further try would find it there."""
    for cached in (cache_folder() / "ivy").rglob(jar.name):
        cached.unlink(missing_ok=True)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
