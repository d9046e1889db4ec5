"""Connect's keys for transforms: what they ask for, and what is wrong with them in one sentence."""

from __future__ import annotations

import pytest

from srm_common.domain.transforms.chain import (
    Predicate,
    PredicateKind,
    Step,
    StepKind,
    parse_chain,
)
from srm_common.domain.transforms.faults import TransformFault
from srm_common.domain.transforms.formats import HeaderConverter

KAFKA = "org.apache.kafka.connect.transforms."
STORAGE = "org.apache.kafka.connect.storage."
FILTER = {"transforms": "f", "transforms.f.type": f"{KAFKA}Filter"}


def test_no_keys_are_no_steps() -> None:
    assert parse_chain({}) == parse_chain({"transforms": " , "}) == ()


def test_steps_come_in_the_order_of_the_list_with_their_predicates() -> None:
    chain = parse_chain(
        {
            "transforms": "mark, filter,clean",
            "transforms.clean.type": "DropHeaders",
            "transforms.clean.headers": "a, b",
            "transforms.filter.type": f"{KAFKA}Filter",
            "transforms.filter.predicate": "orders",
            "transforms.filter.negate": "TRUE",
            "transforms.mark.type": f"{KAFKA}InsertHeader",
            "transforms.mark.header": "origin",
            "transforms.mark.value.literal": " a ",
            "transforms.mark.predicate": "traced",
            "predicates": "orders, traced, unused",
            "predicates.orders.type": f"{KAFKA}predicates.TopicNameMatches",
            "predicates.orders.pattern": "orders\\..*",
            "predicates.traced.type": "HasHeaderKey",
            "predicates.traced.name": "trace-id",
            "predicates.unused.type": "RecordIsTombstone",
        }
    )
    orders = Predicate("orders", PredicateKind.TOPIC_NAME, "orders\\..*")
    traced = Predicate("traced", PredicateKind.HEADER_KEY, "trace-id")
    assert chain == (
        Step("mark", StepKind.INSERT_HEADER, ("origin", "a"), traced),
        Step("filter", StepKind.FILTER, (), orders, True),
        Step("clean", StepKind.DROP_HEADERS, ("a", "b")),
    )


@pytest.mark.parametrize(
    ("changed", "key", "reason"),
    [
        ({"transforms": "f, f"}, "transforms", "names 'f' twice"),
        ({"transforms.f.type": ""}, "transforms.f.type", "is missing: the class of the transform"),
        ({"transforms.f.type": "com.example.Mask"}, "transforms.f.type", "is 'com.example.Mask', a Java class that"),
        (
            {"transforms.f.type": f"{KAFKA}RegexRouter"},
            "transforms.f.type",
            r"is RegexRouter, which renames copies .*: name them with replication\.policy\.class \(Identity",
        ),
        (
            {"transforms.f.type": f"{KAFKA}TimestampRouter"},
            "transforms.f.type",
            r"is TimestampRouter, which spreads a partition over topics .*: remove it, .* replication\.policy\.class",
        ),
        ({"transforms.f.predicate": "p"}, "transforms.f.predicate", "is 'p', which predicates does not name"),
        ({"transforms.f.negate": "true"}, "transforms.f.negate", "is true, but transforms.f.predicate names no"),
        ({"transforms.f.negate": "no"}, "transforms.f.negate", "must be true or false, but is 'no'"),
        ({"transforms.f.type": "InsertHeader"}, "transforms.f.header", "is missing: the name of the header"),
        (
            {"transforms.f.type": "InsertHeader", "transforms.f.header": "h"},
            "transforms.f.value.literal",
            "is missing: the value",
        ),
        (
            {
                "transforms.f.type": "InsertHeader",
                "transforms.f.header": "h",
                "transforms.f.value.literal": "",
                "header.converter": "org.apache.kafka.connect.json.JsonConverter",
            },
            "header.converter",
            r"is 'org\.apache\.kafka\.connect\.json\.JsonConverter', which does not write headers here; known are org",
        ),
        ({"transforms.f.type": "DropHeaders"}, "transforms.f.headers", "is missing: the names of the headers"),
        ({"predicates": "p"}, "predicates.p.type", "is missing: the class of the predicate"),
        ({"predicates": "p", "predicates.p.type": "x.Y"}, "predicates.p.type", "is 'x.Y'; Kafka's own predicates are"),
        ({"predicates": "p", "predicates.p.type": "HasHeaderKey"}, "predicates.p.name", "is missing: the header's"),
        (
            {"predicates": "p", "predicates.p.type": "TopicNameMatches", "predicates.p.pattern": "a("},
            "predicates.p.pattern",
            "cannot be used: 'a\\(' is not a usable expression",
        ),
    ],
)
def test_one_sentence_names_the_key(changed: dict[str, str], key: str, reason: str) -> None:
    with pytest.raises(TransformFault, match=reason) as raised:
        parse_chain(FILTER | changed)
    assert raised.value.key == key


def test_the_converter_of_headers_counts_for_those_that_are_made_alone() -> None:
    inserted = {"transforms.f.type": "InsertHeader", "transforms.f.header": "h", "transforms.f.value.literal": " 007\t"}
    (plain,) = parse_chain(FILTER | inserted)
    (text,) = parse_chain(FILTER | inserted | {"header.converter": f"{STORAGE}StringConverter"})
    (simple,) = parse_chain(FILTER | inserted | {"header.converter": f"{STORAGE}SimpleHeaderConverter"})
    assert plain == simple
    assert plain.arguments == ("h", "007")
    assert (simple.header_converter, text.header_converter) == (HeaderConverter.SIMPLE, HeaderConverter.STRING)
    assert parse_chain(FILTER | {"header.converter": "com.example.Own"}) == parse_chain(FILTER)
