"""Logging files for Kafka's JVMs: everything of level INFO to standard output, which JavaProcess keeps in a file."""

from __future__ import annotations

from collections.abc import Mapping
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


def logging_options(version: str, folder: Path, level: str = "INFO") -> list[str]:
    """Writes the file into ``folder`` and returns the JVM options that point to it."""
    if major(version) >= 4:
        path = folder / "log4j2.properties"
        path.write_text(_log4j2(level))
        return [f"-Dlog4j2.configurationFile={path}"]
    path = folder / "log4j.properties"
    path.write_text(_reload4j(level))
    return [f"-Dlog4j.configuration={path.as_uri()}"]


def _log4j2(level: str) -> str:
    lines = [
        "status = error",
        "appender.out.type = Console",
        "appender.out.name = out",
        "appender.out.layout.type = PatternLayout",
        "appender.out.layout.pattern = [%d] %p %m (%c)%n",
        f"rootLogger.level = {level}",
        "rootLogger.appenderRef.out.ref = out",
    ]
    for number, (name, quiet) in enumerate(QUIET.items()):
        lines += [f"logger.q{number}.name = {name}", f"logger.q{number}.level = {quiet}"]
    return "\n".join(lines) + "\n"


def _reload4j(level: str) -> str:
    lines = [
        f"log4j.rootLogger = {level}, out",
        "log4j.appender.out = org.apache.log4j.ConsoleAppender",
        "log4j.appender.out.layout = org.apache.log4j.PatternLayout",
        "log4j.appender.out.layout.ConversionPattern = [%d] %p %m (%c)%n",
        *(f"log4j.logger.{name} = {quiet}" for name, quiet in QUIET.items()),
    ]
    return "\n".join(lines) + "\n"
