from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import ModuleType

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.filters.filter_classes import filter_class, group_filter, property_filter, topic_filter
from srm_common.domain.flow import FlowName, FlowSettings
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


@pytest.fixture(autouse=True)
def company_filters() -> Iterator[None]:
    module = ModuleType("company_filters")
    module.ByPrefix, module.Unmakeable, module.number = ByPrefix, Unmakeable, 5  # type: ignore[attr-defined]
    sys.modules["company_filters"] = module
    yield
    del sys.modules["company_filters"]


def test_without_a_class_the_lists_decide() -> None:
    assert topic_filter(FLOW).decide("orders").reason == "'orders' of topics matches it"
    assert not group_filter(FLOW).decide("connect-x").accepted
    assert property_filter(FLOW).decide("retention.ms").accepted
    assert not property_filter(FLOW).decide("min.insync.replicas").accepted


def test_a_class_decides_with_the_flows_lists() -> None:
    flow = replace(FLOW, topic_filter_class="company_filters.ByPrefix")
    decisions = {one.topic: one for one in select_topics(flow, ["orders.eu", "x", "clicks", "orders.boom", "__o"])}
    assert {topic for topic, one in decisions.items() if one.accepted} == {"orders.eu"}
    assert decisions["orders.eu"].reason == "topic.filter.class company_filters.ByPrefix takes it"
    assert decisions["clicks"].reason == "topic.filter.class company_filters.ByPrefix leaves it out"
    assert decisions["orders.boom"].reason.endswith("ByPrefix failed on it: LookupError: no owner")
    assert decisions["__o"].reason == "internal topics are never copied"


def test_properties_and_groups_have_classes_too() -> None:
    flow = replace(
        FLOW,
        group_filter_class="company_filters.ByPrefix",
        config_property_filter_class="company_filters.ByPrefix",
        groups=("g",),
    )
    assert group_filter(flow).decide("g1").accepted
    assert not property_filter(flow).decide("retention.ms").accepted, "it was given '.*' as a prefix"


@pytest.mark.parametrize("written", ["DefaultTopicFilter", "org.apache.kafka.connect.mirror.DefaultTopicFilter"])
def test_javas_own_class_means_the_lists(written: str) -> None:
    assert filter_class(written, "DefaultTopicFilter") is None


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("MyFilter", "there is no filter 'MyFilter'; use DefaultTopicFilter, or the dotted path of a Python class"),
        ("com.example.Mine", "'com.example.Mine' cannot be imported: there is no such Python module (Java classes"),
        ("company_filters.Other", "module 'company_filters' has no 'Other'"),
        ("company_filters.number", "'company_filters.number' is not a class with a method accepts(name)"),
    ],
)
def test_what_is_no_filter_is_refused(written: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        filter_class(written, "DefaultTopicFilter")


def test_a_class_that_cannot_be_made_stops_the_flow() -> None:
    with pytest.raises(
        ConfigError, match=r"topic.filter.class 'company_filters.Unmakeable' cannot be instantiated: TypeError"
    ):
        topic_filter(replace(FLOW, topic_filter_class="company_filters.Unmakeable"))
