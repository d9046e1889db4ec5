from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.filters.filter_classes import group_filter, property_filter, topic_filter
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow.settings import FilterClass
from srm_common.domain.topics.selection import select_topics
from srm_common.errors import ConfigError

FLOW = FlowSettings(
    FlowName("a", "b"),
    ClusterSettings.plaintext("a", "127.0.0.1:1"),
    ClusterSettings.plaintext("b", "127.0.0.1:2"),
    topics=("orders",),
    topics_exclude=("x",),
)


class ByPrefix:
    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        self._include, self._exclude = tuple(include), tuple(exclude)

    def accepts(self, name: str) -> bool:
        if "boom" in name:
            raise LookupError("no owner")
        return name.startswith(self._include) and name not in self._exclude


class Unmakeable:
    def __init__(self) -> None: ...

    def accepts(self, name: str) -> bool:
        return True


BY_PREFIX = FilterClass("company_filters.ByPrefix", ByPrefix)


def test_without_a_class_the_lists_decide() -> None:
    assert topic_filter(FLOW).decide("orders").reason == "'orders' of topics matches it"
    assert not group_filter(FLOW).decide("connect-x").accepted
    assert property_filter(FLOW).decide("retention.ms").accepted
    assert not property_filter(FLOW).decide("min.insync.replicas").accepted


def test_a_class_decides_with_the_flows_lists() -> None:
    flow = replace(FLOW, topic_filter_class=BY_PREFIX)
    decisions = {one.topic: one for one in select_topics(flow, ["orders.eu", "x", "clicks", "orders.boom", "__o"])}
    assert {topic for topic, one in decisions.items() if one.accepted} == {"orders.eu"}
    assert decisions["orders.eu"].reason == "topic.filter.class company_filters.ByPrefix takes it"
    assert decisions["clicks"].reason == "topic.filter.class company_filters.ByPrefix leaves it out"
    assert decisions["orders.boom"].reason.endswith("ByPrefix failed on it: LookupError: no owner")
    assert decisions["__o"].reason == "internal topics are never copied"


def test_properties_and_groups_have_classes_too() -> None:
    flow = replace(
        FLOW,
        group_filter_class=BY_PREFIX,
        config_property_filter_class=BY_PREFIX,
        groups=("g",),
    )
    assert group_filter(flow).decide("g1").accepted
    assert not property_filter(flow).decide("retention.ms").accepted, "it was given '.*' as a prefix"


def test_a_class_that_cannot_be_made_stops_the_flow() -> None:
    with pytest.raises(ConfigError, match=r"topic.filter.class 'company_filters.Unmakeable' cannot be made: TypeError"):
        topic_filter(replace(FLOW, topic_filter_class=FilterClass("company_filters.Unmakeable", Unmakeable)))
