from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.domain.flow import FlowSettings
from srm_common.domain.plans.idle_steps import idle_steps
from srm_common.domain.plans.planning import SourceView, TargetView, make_plan
from srm_common.domain.topics.replication import Brokers
from srm_common.domain.topics.selection import TopicDecision
from srm_common.domain.transforms.chain import parse_chain
from srm_common.domain.transforms.statements import Statement
from tests.unit.domain.plans.test_planning import FLOW

DECISIONS = [
    TopicDecision("heartbeats", True, "", "a.heartbeats"),
    TopicDecision("orders", True, "", "a.orders"),
    TopicDecision("payments", True, "", "a.payments"),
    TopicDecision("private", False, "", "a.private"),
]


def with_predicate(pattern: str, negate: bool = False) -> FlowSettings:
    keys = {
        "transforms": "m",
        "transforms.m.type": "Filter",
        "transforms.m.predicate": "p",
        "transforms.m.negate": str(negate),
        "predicates": "p",
        "predicates.p.type": "TopicNameMatches",
        "predicates.p.pattern": pattern,
    }
    return replace(FLOW, transforms=parse_chain(keys))


@pytest.mark.parametrize(
    ("pattern", "negate", "why"),
    [
        ("a.orders", False, None),
        ("a.orders", True, None),
        ("orders", False, "predicates.p.pattern = orders matches none of them; it is compared with names on the "
         "target, such as a.orders, not with those at the source"),
        ("a.private|a.heartbeats", False, "predicates.p.pattern = a.private|a.heartbeats matches none of them"),
        ("a[.].*", True, "predicates.p.pattern = a[.].* matches all of them, and negate is true"),
    ],
)  # fmt: skip
def test_a_step_for_no_topic(pattern: str, negate: bool, why: str | None) -> None:
    told = [] if why is None else [f"transforms.m applies to none of the copied topics: {why}"]
    assert list(idle_steps(with_predicate(pattern, negate), DECISIONS)) == told


def test_a_statement_for_no_topic() -> None:
    text = "SELECT key FROM records"
    texts = {"a": ("orders", text), "b": ("a.payments", text), "c": ("ord.*", text), "d": ("x", text)}
    named = tuple(Statement(f"transforms.sql.{name}", query, topics) for name, (topics, query) in texts.items())
    flow = replace(FLOW, statements=(*named, Statement("transforms.sql", text)))
    none = "applies to none of the copied topics: "
    assert list(idle_steps(flow, DECISIONS)) == [
        f"transforms.sql.b {none}transforms.sql.b.topics = a.payments matches none of them; it is compared with names "
        "at the source, such as orders, not with those on the target",
        f"transforms.sql.c {none}statements before it are for all those that it matches",
        f"transforms.sql.d {none}transforms.sql.d.topics = x matches none of them",
    ]


def test_nothing_is_said_where_nothing_is_copied_or_each_record_decides() -> None:
    flow = with_predicate("orders")
    assert list(idle_steps(flow, DECISIONS[:1])) == []
    keys = {"transforms": "m", "transforms.m.type": "Filter", "transforms.m.predicate": "p", "predicates": "p"}
    of_records = parse_chain(keys | {"predicates.p.type": "RecordIsTombstone"})
    assert list(idle_steps(replace(FLOW, transforms=of_records), DECISIONS)) == []


def test_a_plan_says_so() -> None:
    plan = make_plan(
        with_predicate("orders"),
        [TopicDecision("orders", True, "", "a.orders")],
        SourceView({"orders": 1}, {"orders": {}}),
        TargetView({}, {}, Brokers(1)),
    )
    told = "transforms.m applies to none of the copied topics"
    assert [notice.partition(":")[0] for notice in plan.notices] == [told]
