"""Kafka's own transforms and converters as a judge of ours: one JVM that takes cases on its standard input."""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from srm_common.domain.transforms.chain import parse_chain
from srm_common.records.transform import Transform
from srm_common.wire.reencoding.columns import SCHEMA, parsed_headers
from tests.kafka.judge import java_command

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
SIMPLE = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


class Converted(NamedTuple):
    """A key or value, and the converter that reads and writes it."""

    data: bytes | None
    converter: str = BYTES
    settings: Mapping[str, str] = {}


class Case(NamedTuple):
    """A record, and the steps that it goes through: Kafka's classes and their settings; ``headers``: the converter
    of its headers."""

    steps: Sequence[tuple[str, Mapping[str, str]]]
    value: Converted = Converted(None)
    key: Converted = Converted(None)
    topic: str = "east.orders"
    partition: int = 3
    timestamp: int = 1_700_000_000_123
    headers: str = SIMPLE


class Outcome(NamedTuple):
    """The record that comes out, or why there is none; reasons differ, so they do not count."""

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    failed: bool = False
    reason: str = ""


class TransformJudge:
    """Answers what Kafka makes of cases. ``java``: the JVM's version."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        assert process.stdout is not None
        self.java = int(process.stdout.readline())

    def __call__(self, case: Case) -> Outcome:
        line = {
            "steps": [{"class": name, "settings": dict(settings)} for name, settings in case.steps],
            "key": _side(case.key),
            "value": _side(case.value),
            "headers": case.headers,
            "topic": case.topic,
            "partition": case.partition,
            "timestamp": case.timestamp,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            return Outcome(failed=True, reason=answer["error"])
        headers = tuple((name, _data(value)) for name, value in answer["headers"])
        return Outcome(_data(answer["key"]), _data(answer["value"]), headers)


@contextlib.contextmanager
def transform_judge() -> Iterator[TransformJudge]:
    """The JVM, in UTC, where Cast writes dates in the JVM's time zone."""
    command = java_command("TransformJudge", options=("-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US"))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            yield TransformJudge(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=180)


def ours(case: Case) -> Outcome:
    """What becomes of the record here."""
    values = {"transforms": ",".join(f"s{number}" for number in range(len(case.steps)))}
    for number, (name, settings) in enumerate(case.steps):
        values[f"transforms.s{number}.type"] = f"org.apache.kafka.connect.transforms.{name}"
        values |= {f"transforms.s{number}.{key}": value for key, value in settings.items()}
    for side, converted in (("key", case.key), ("value", case.value)):
        values[f"{side}.converter"] = converted.converter
        values |= {f"{side}.converter.{key}": value for key, value in converted.settings.items()}
    values["header.converter"] = case.headers
    transform = Transform(parse_chain(values), case.topic, partition=case.partition)
    columns = [[7], [case.timestamp], [case.key.data], [case.value.data], [0], [b""]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    left, faults = transform.apply(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    if faults:
        return Outcome(failed=True, reason=str(faults[0]))
    headers = tuple((header["key"].decode(), header["value"]) for header in parsed_headers(left)[0].as_py())
    return Outcome(left.column(2)[0].as_py(), left.column(3)[0].as_py(), headers)


def _side(converted: Converted) -> dict[str, Any]:
    data = None if converted.data is None else base64.b64encode(converted.data).decode()
    return {"class": converted.converter, "settings": dict(converted.settings), "data": data}


def _data(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
