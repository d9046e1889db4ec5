"""Logging files for Kafka's JVMs: everything of level INFO to standard output, which JavaProcess keeps in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from srm_common.testing.artifacts import major

# Chatty at INFO, never a cause: the request loggers, and one line per partition from the controller's state machines.
QUIET: Mapping[str, str] = {
    "kafka.request.logger": "WARN",
    "kafka.network.RequestChannel$": "WARN",
    "state.change.logger": "WARN",
    "org.apache.kafka.common.config.AbstractConfig": "WARN",
    "org.apache.kafka.clients.admin.AdminClientConfig": "WARN",
    "org.reflections": "ERROR",
}

_PATTERN = "[%d] %p %m (%c)%n"
#: The key of a thread's context for :func:`log_of_each_node`.
NODE_FOLDER = "node"


def logging_options(version: str, folder: Path, level: str = "INFO") -> list[str]:
    """Writes the file into ``folder`` and returns the JVM options that point to it."""
    if major(version) >= 4:
        path = folder / "log4j2.properties"
        path.write_text(_log4j2(level))
        return [f"-Dlog4j2.configurationFile={path}"]
    path = folder / "log4j.properties"
    path.write_text(_reload4j(level))
    return [f"-Dlog4j.configuration={path.as_uri()}"]


def log_of_each_node(folder: Path) -> list[str]:
    """As :func:`logging_options`, for nodes of Kafka 4 in one JVM: what a thread logs goes to the file ``log`` of the
    folder that :data:`NODE_FOLDER` names for it. A thread has the context of the one that started it."""
    path = folder / "log4j2.properties"
    routes = [
        "type = Routing",
        "name = nodes",
        "routes.type = Routes",
        f"routes.pattern = $${{ctx:{NODE_FOLDER}}}",
        "routes.none.type = Route",
        f"routes.none.key = $${{ctx:{NODE_FOLDER}}}",
        "routes.none.ref = out",
        "routes.node.type = Route",
        "routes.node.file.type = File",
        f"routes.node.file.name = ${{ctx:{NODE_FOLDER}}}",
        f"routes.node.file.fileName = ${{ctx:{NODE_FOLDER}}}/log",
        "routes.node.file.layout.type = PatternLayout",
        f"routes.node.file.layout.pattern = {_PATTERN}",
    ]
    lines = [*(f"appender.nodes.{line}" for line in routes), "rootLogger.appenderRef.nodes.ref = nodes"]
    path.write_text(_log4j2("INFO", lines))
    return [f"-Dlog4j2.configurationFile={path}", "-Dlog4j2.isThreadContextMapInheritable=true"]


def _log4j2(level: str, appenders: Sequence[str] = ("rootLogger.appenderRef.out.ref = out",)) -> str:
    lines = [
        "status = error",
        "appender.out.type = Console",
        "appender.out.name = out",
        "appender.out.layout.type = PatternLayout",
        f"appender.out.layout.pattern = {_PATTERN}",
        f"rootLogger.level = {level}",
        *appenders,
    ]
    for number, (name, quiet) in enumerate(QUIET.items()):
        lines += [f"logger.q{number}.name = {name}", f"logger.q{number}.level = {quiet}"]
    return "\n".join(lines) + "\n"


def _reload4j(level: str) -> str:
    lines = [
        f"log4j.rootLogger = {level}, out",
        "log4j.appender.out = org.apache.log4j.ConsoleAppender",
        "log4j.appender.out.layout = org.apache.log4j.PatternLayout",
        f"log4j.appender.out.layout.ConversionPattern = {_PATTERN}",
        *(f"log4j.logger.{name} = {quiet}" for name, quiet in QUIET.items()),
    ]
    return "\n".join(lines) + "\n"
