"""Transforms of fields give what Kafka's own classes give on the same records, byte for byte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numpy as np
import pytest

from srm_common.domain.transforms.field_steps import FIELD_TRANSFORMS
from tests.kafka.connect.awkward_values import DOCUMENTS, LITERALS, NUMBERS
from tests.kafka.connect.random_cases import Draws, case, step
from tests.kafka.connect.transform_judge import (
    JSON,
    SIMPLE,
    STRING,
    Case,
    Converted,
    Outcome,
    TransformJudge,
    ours,
    transform_judge,
)

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def judge() -> Iterator[TransformJudge]:
    with transform_judge() as one:
        yield one


def agree(judge: TransformJudge, one: Case) -> Outcome:
    """Compares, and gives our outcome. What no step changed keeps its bytes here, where Connect writes it anew."""
    mine, theirs = ours(one), judge(one)
    told = f"{one}\nours:   {mine}\ntheirs: {theirs}"
    sides = ((one.key, mine.key, theirs.key), (one.value, mine.value, theirs.value))
    if mine.reason.endswith("bytes cannot be written as text"):
        assert b"[B@" in (theirs.key or b"") + (theirs.value or b""), told
        return mine
    if theirs.failed and not mine.failed:
        assert any(judge(Case([], given)).failed for given, my, _ in sides if my == given.data), told
        return mine
    assert mine.failed == theirs.failed, told
    assert [name for name, _ in mine.headers] == [name for name, _ in theirs.headers], told
    for (_, my), (_, their) in zip(mine.headers, theirs.headers, strict=True):
        assert my == their or (judge.java < 19 and shortest(my) == shortest(their)), told
    for given, my, their in sides:
        if my != their and not (judge.java < 19 and shortest(my) == shortest(their)):
            assert my == given.data, told
            anew = judge(Case([], given)).value
            assert json.loads(anew or b"null") == json.loads(their or b"null"), told
    return mine


def shortest(data: bytes | None) -> bytes | None:
    """With the shortest digits of numbers, which Java writes since version 19 only."""
    return data and _LONG_NUMBER.sub(_shortest, data)


_LONG_NUMBER = re.compile(rb"-?\d\.\d+E-?\d+")


def _shortest(found: re.Match[bytes]) -> bytes:
    with np.errstate(over="ignore"):
        return str(np.float32(float(found[0]))).encode()


@pytest.mark.parametrize("name", FIELD_TRANSFORMS)
def test_random_records(judge: TransformJudge, name: str) -> None:
    draws = Draws(len(name) * 31 + ord(name[0]))
    outcomes = [agree(judge, case(draws, name)) for _ in range(800)]
    assert sum(not outcome.failed for outcome in outcomes) > 50


@pytest.mark.parametrize("schemas", [False, True])
def test_documents(judge: TransformJudge, schemas: bool) -> None:
    hoist = [("HoistField$Value", {"field": "it"})]
    for document in DOCUMENTS:
        agree(judge, Case(hoist, Converted(document, JSON, {"schemas.enable": "false"})))
        if schemas:
            agree(judge, Case(hoist, Converted(b'{"schema":null,"payload":' + document + b"}", JSON)))
            agree(judge, Case(hoist, Converted(document, JSON)))


def test_texts_cast_to_numbers(judge: TransformJudge) -> None:
    texts = [
        "0",
        "-0",
        "+0",
        "127",
        "128",
        "-128",
        "-129",
        "007",
        "1_000",
        "12L",
        "0x10",
        "1e2",
        "1.",
        ".5",
        ".",
        "-.5e-3f",
        "1d",
        "0x1.8p1",
        "0x.8p-2D",
        "0x1",
        "NaN",
        "+NaN",
        "-Infinity",
        "infinity",
        "1e400",
        "-1e400",
        "1e-400",
        "3.4028236e38",
        "3.4028235677973366e38",
        "1.0000000596046448",
        "16777217",
        "0.500000029802322387695312500000001",
        "9223372036854775807",
        "9223372036854775808",
        "\u0661\u0662",
        "\uff11",
    ]
    for of in ["int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string"]:
        for text in (*texts, "", " ", " 1 ", "\t1.5\n", "true", "TrUe", "\u00a01"):
            data = json.dumps({"a": text}).encode()
            agree(
                judge, Case([("Cast$Value", {"spec": f"a:{of}"})], Converted(data, JSON, {"schemas.enable": "false"}))
            )


@pytest.mark.parametrize("of", ["int8", "int16", "int32", "int64", "float", "double", "boolean", "string", "bytes"])
@pytest.mark.parametrize("optional", [False, True])
def test_values_of_another_type_than_their_schema(judge: TransformJudge, of: str, optional: bool) -> None:
    schema = json.dumps({"type": of, "optional": optional})
    for value in (*NUMBERS, '"12"', '"QQ=="', '""', "true", "null", "[1]", "{}", '{"a":1}'):
        data = f'{{"payload":{value},"schema":{schema}}}'.encode()
        agree(judge, Case([("HoistField$Value", {"field": "it"})], Converted(data, JSON)))


def test_schemas_that_are_wrong(judge: TransformJudge) -> None:
    schemas = [
        "1",
        "[]",
        "{}",
        '{"type":1}',
        '{"type":"int"}',
        '{"type":"array"}',
        '{"type":"array","items":null}',
        '{"type":"map"}',
        '{"type":"map","keys":{"type":"string"},"values":null}',
        '{"type":"struct"}',
        '{"type":"struct","fields":{}}',
        '{"type":"struct","fields":[null]}',
        '{"type":"struct","fields":[{"type":"int8"}]}',
        '{"type":"struct","fields":[{"field":"","type":"int8"}]}',
        '{"type":"struct","fields":[{"field":"a","type":"int8"},{"field":"a","type":"int8"}]}',
        '{"type":"struct","fields":[],"default":{}}',
        '{"type":"int8","default":"x"}',
        '{"type":"string","default":1}',
        '{"type":"int8","optional":"true","name":1,"version":"1","doc":2,"parameters":[]}',
        '{"type":"int8","version":4294967297,"parameters":{}}',
        '{"type":"int8","parameters":{"a":1}}',
        '{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal"}',
        '{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"x"}}',
    ]
    for schema in schemas:
        for payload in ("{}", "1", '"QQ=="', "null"):
            data = f'{{"schema":{schema},"payload":{payload}}}'.encode()
            agree(judge, Case([("HoistField$Value", {"field": "it"})], Converted(data, JSON)))


@pytest.mark.parametrize("converter", [SIMPLE, STRING])
def test_literals_of_inserted_headers(judge: TransformJudge, converter: str) -> None:
    draws = Draws(len(converter))
    texts = [*LITERALS, *(draws.literal() for _ in range(3000))]
    for text in texts:
        one = Case([("InsertHeader", {"header": "h", "value.literal": text})], Converted(b"v"), headers=converter)
        mine, theirs = ours(one), judge(one)
        assert not theirs.failed, (text, theirs)
        (_, my), (_, their) = *mine.headers, *theirs.headers
        assert my == their or (judge.java < 19 and shortest(my) == shortest(their)), (text, my, their)


def test_chains(judge: TransformJudge) -> None:
    draws = Draws(1)
    names = [name for name in FIELD_TRANSFORMS if name != "ValueToKey"]
    done = 0
    for _ in range(1500):
        steps = [step(draws, draws.choice(names), "Value") for _ in range(3)]
        done += not agree(judge, Case(steps, draws.converted())).failed
    assert done > 100


def test_a_key_out_of_a_value(judge: TransformJudge) -> None:
    """The usual way to a plain key."""
    steps = [("ValueToKey", {"fields": "id"}), ("ExtractField$Key", {"field": "id"})]
    value = Converted(b'{"id":42,"name":"x"}', JSON, {"schemas.enable": "false"})
    outcome = agree(judge, Case(steps, value, Converted(b"old", STRING)))
    assert (outcome.key, outcome.value) == (b"42", value.data)


_PATTERNS = (
    "yyyy-MM-dd'T'HH:mm:ss.SSSX",
    "yyyy-MM-dd HH:mm:ss.SSSSSS",
    "yyyyMMddHHmmssSSS",
    "yy-M-d",
    "d MMM yyyy h:mm a",
    "EEEE, dd MMMM yyyy kk:mm:ss z",
    "EEE MMM d HH:mm:ss Z yyyy",
    "D/y G",
    "KK 'o''clock' a, XXX",
    "HH:mm:ss",
    "yyyy-MM-dd-X",
    "u yyyy-MM-dd",
    "LLL yyyy XX",
)


@pytest.mark.parametrize("pattern", _PATTERNS)
def test_patterns_of_timestamps(judge: TransformJudge, pattern: str) -> None:
    draws = Draws(len(pattern))
    texts = [
        "",
        " ",
        "2024-02-30T24:00:61.1234Z",
        "0000-00-00 00:00:00.000000",
        "-5-13-45",
        "20240229235959999x",
        "99-1-1",
    ]
    texts += [
        "1 jan 2024 12:00 pm",
        "29 February 2024 0:5 AM",
        "366/1 BC",
        "-1/2024 AD",
        "12 o'clock AM, +05:30",
        "24:60:60",
    ]
    texts += [
        "2024-01-01--0530",
        "2024-01-01-+14",
        "7 2024-01-01",
        "MAY 2024 -0100",
        "Thu Jan 1 00:00:00 GMT+1:30 1970",
    ]
    for millis in (
        0,
        -1,
        1_700_000_000_123,
        -12_219_292_800_000,
        -12_219_292_800_001,
        -62_135_769_600_000,
        253_402_300_800_000,
    ):
        settings = {"target.type": "string", "format": pattern}
        data = Converted(b"%d" % millis, JSON, {"schemas.enable": "false"})
        texts.append(json.loads(agree(judge, Case([("TimestampConverter$Value", settings)], data)).value or b""))
    for text in [*texts]:
        for _ in range(12):
            cut = int(draws.choice("0123456789")) * (len(text) + 1) // 10
            texts.append(text[:cut] + draws.choice(["", " ", "-", "7", "12", "\t", "x", "+", ":"]) + text[cut:])
    done = 0
    for text in texts:
        settings = {"target.type": "unix", "format": pattern}
        data = Converted(json.dumps(text).encode(), JSON, {"schemas.enable": "false"})
        done += not agree(judge, Case([("TimestampConverter$Value", settings)], data)).failed
    assert done > 20


def test_what_is_refused_here_alone(judge: TransformJudge) -> None:
    """As docs/transforms.md says."""
    hoist = [("HoistField$Value", {"field": "it"})]
    deep = b"[" * 700 + b"]" * 700
    for document in (b'{"a":"\xc0\x80"}', deep):
        one = Case(hoist, Converted(document, JSON, {"schemas.enable": "false"}))
        assert ours(one).failed
        assert not judge(one).failed
