from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.filters.flow_filters import (
    FIELDS,
    IN_FILE,
    FilterEdit,
    FilterLists,
    FlowFilters,
    edited,
    environment_safe_name,
    group_filter,
    property_filter,
    topic_filter,
    variable_name,
    variable_names,
)
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow.settings import FilterClass
from srm_common.domain.topics.selection import select_topics
from srm_common.errors import ConfigError

FLOW = FlowSettings(
    FlowName("a", "b"),
    ClusterSettings.plaintext("a", "127.0.0.1:1"),
    ClusterSettings.plaintext("b", "127.0.0.1:2"),
    topics=("in.file",),
    topics_exclude=("not.in.file",),
    groups=("g.*",),
)

names = st.text(st.sampled_from("abcXYZ019._-"), min_size=1, max_size=8)
lists = st.dictionaries(st.sampled_from(list(FIELDS)), st.lists(names, max_size=4).map(tuple))


def test_a_list_that_is_named_replaces_the_files_and_the_others_stay() -> None:
    filters = FlowFilters.parse('{"topics": ["orders.*", " pay "], "groups.exclude": []}', FLOW, "the variable")
    assert filters.topics == ("orders.*", "pay")
    assert filters.topics_exclude == ("not.in.file",)
    assert (filters.groups, filters.groups_exclude) == (("g.*",), ())
    assert filters.origin_of("topics") == filters.origin_of("groups.exclude") == "the variable"
    assert filters.origin_of("topics.exclude") == IN_FILE
    effective = filters.applied_to(FLOW)
    assert (effective.topics, effective.topics_exclude) == (("orders.*", "pay"), ("not.in.file",))
    assert effective.name == FLOW.name


def test_no_lists_leave_the_flow_as_it_is() -> None:
    filters = FlowFilters.parse("{}", FLOW, "the variable")
    assert filters.origin == IN_FILE
    assert filters.applied_to(FLOW) == FLOW


def test_a_list_may_be_one_text_as_in_the_file() -> None:
    assert FilterLists.parse('{"topics": "a, b{1,3} ,c"}').get("topics") == ("a", "b{1,3}", "c")


@given(lists)
def test_what_is_formatted_is_parsed_again(found: dict[str, tuple[str, ...]]) -> None:
    made = FilterLists.of(found)
    assert FilterLists.parse(made.format()) == made
    assert made.to_json() == {key: list(patterns) for key, patterns in found.items()}


@given(lists)
def test_all_lists_spelled_out_mean_the_same(found: dict[str, tuple[str, ...]]) -> None:
    filters = FilterLists.of(found).over(FLOW, "x")
    assert filters.lists().over(FLOW, "x").applied_to(FLOW) == filters.applied_to(FLOW)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "this is not JSON: Expecting value at line 1, column 1"),
        ('{"topics": [".*",]}', "this is not JSON: "),
        ("[" * 100_000, "nested too deeply"),
        ("null", "a JSON object is needed, but it is null"),
        ('["orders"]', "a JSON object is needed, but it is a list"),
        ('{"topic": ["orders"]}', "there is no list 'topic'; it may be topics"),
        ('{"x": []}', "there is no list 'x'; the lists are topics, topics.exclude, groups"),
        ('{"topics": null}', "topics must be a list of expressions"),
        ('{"topics": ["a", 1]}', "topics must be a list of expressions"),
        ('{"topics": ["a", " "]}', "topics has an empty expression"),
        ('{"topics": ["a"], "topics": ["b"]}', "topics is there twice"),
        (
            '{"groups": ["ok", "a(b"]}',
            "groups: 'a(b' is not a usable expression: a '(' is not closed at position 4",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        FlowFilters.parse(text, FLOW, "the variable")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_example_in_the_message_can_be_used() -> None:
    with pytest.raises(ConfigError) as refused:
        FilterLists.parse("")
    example = str(refused.value).partition("write it like ")[2]
    assert FilterLists.parse(example).get("topics.exclude") == (r"orders\.test.*",)
    assert json.loads(example)["topics"] == ["orders.*"]


def test_names_of_the_variable() -> None:
    flow = FlowName("us-east", "eu.1")
    assert variable_name(flow) == "srm_filters__us-east__eu.1"
    assert environment_safe_name(flow) == "srm_filters__us_east__eu_1"
    assert variable_names(flow, [flow, FlowName("eu.1", "us-east")]) == (
        variable_name(flow),
        environment_safe_name(flow),
    )
    assert variable_names(FlowName("a", "b"), [FlowName("a", "b")]) == ("srm_filters__a__b",)


def test_the_safe_name_is_nobodys_where_two_flows_have_a_claim() -> None:
    one, other = FlowName("us-east", "eu"), FlowName("US_EAST", "eu")
    assert variable_names(one, [one, other]) == (variable_name(one),)
    assert variable_names(other, [one, other]) == (variable_name(other),)


def test_two_flows_never_share_a_variable() -> None:
    one, other = FlowName("a__b", "c"), FlowName("a", "b__c")
    with pytest.raises(ConfigError, match="a__b->c and a->b__c would share the Airflow variable srm_filters__a__b__c"):
        variable_names(one, [one, other])


def test_lists_of_copies_run_as_they_are_edited() -> None:
    edited = FlowFilters.parse('{"reverse.checkpointed.topics": ["a.orders"]}', FLOW, "the variable")
    flow = edited.applied_to(FLOW)
    assert (flow.reverse_topics, flow.reverse_topics_exclude) == (("a.orders",), ())
    assert FlowFilters.of(FLOW).applied_to(FLOW) == FLOW


FILE_LISTS = FlowFilters(("pay", "orders.*"), ("orders\\.x",), (".*",), ())
patterns = st.lists(st.sampled_from(["a", "b", "c.*", "pay", "orders.*"]), max_size=4)


def test_an_edit_starts_from_the_list_that_counts_and_leaves_the_others_in_the_file() -> None:
    done = edited(FILE_LISTS, FilterLists(), FilterEdit(add={"topics": ["clicks"]}, remove={"topics": ["pay"]}))
    assert done.lists.to_json() == {"topics": ["orders.*", "clicks"]}
    assert done.notes == ()


def test_an_edit_goes_on_from_an_earlier_one() -> None:
    lists = FilterLists.of({"topics": ["a"], "groups": ["g"]})
    done = edited(FILE_LISTS, lists, FilterEdit(add={"topics.exclude": ["y"]}))
    assert done.lists.to_json() == {"topics": ["a"], "topics.exclude": ["orders\\.x", "y"], "groups": ["g"]}


def test_what_changes_nothing_is_said() -> None:
    edit = FilterEdit(add={"topics": ["pay", "orders.eu"]}, remove={"topics": ["nothing"], "topics.exclude": ["z"]})
    done = edited(FILE_LISTS, FilterLists(), edit)
    assert done.lists.to_json() == {"topics": ["pay", "orders.*", "orders.eu"]}
    assert done.notes == (
        "'nothing' is not in topics",
        "'pay' is in topics already",
        "'orders.eu' is already matched by 'orders.*' of topics",
        "'z' is not in topics.exclude",
    )


def test_a_removed_name_that_is_still_matched_is_said() -> None:
    now = FlowFilters(("orders", "ord.*"), (), (".*",), ())
    done = edited(now, FilterLists(), FilterEdit(remove={"topics": ["orders"]}))
    assert done.notes == ("'orders' is still matched by 'ord.*' of topics",)


def test_whole_lists_may_be_put_in_place() -> None:
    put = FilterLists.of({"topics": [], "groups": ["g1"]})
    done = edited(FILE_LISTS, FilterLists.of({"topics": ["a"]}), FilterEdit(put=put))
    assert done.lists.to_json() == {"topics": [], "groups": ["g1"]}


def test_lists_may_go_back_to_the_file() -> None:
    lists = FilterLists.of({"topics": ["a"], "topics.exclude": ["b"], "groups": ["g"]})
    done = edited(FILE_LISTS, lists, FilterEdit(add={"topics": ["x"]}, reset=("topics", "topics.exclude")))
    assert done.lists.to_json() == {"topics": ["pay", "orders.*", "x"], "groups": ["g"]}


def test_an_expression_that_cannot_be_used_is_refused_with_its_position() -> None:
    with pytest.raises(
        ConfigError, match=r"topics: 'a\[' is not a usable expression: a '\[' is not closed at position 2"
    ):
        edited(FILE_LISTS, FilterLists(), FilterEdit(add={"topics": ["b", "a["]}))


def test_an_expression_that_cannot_be_used_behind_the_others_is_refused_too() -> None:
    # The flag of the first is still on: everything behind # is a comment.
    lists = FilterLists.of({"topics": ["(?x)a"]})
    with pytest.raises(ConfigError, match="topics: 'b #c' is not a usable expression"):
        edited(FILE_LISTS, lists, FilterEdit(add={"topics": ["b #c"]}))


@given(patterns, patterns, patterns)
def test_sets_behave_like_sets(before: list[str], add: list[str], remove: list[str]) -> None:
    now = FlowFilters(tuple(dict.fromkeys(before)), (), (), ())
    lists = edited(now, FilterLists(), FilterEdit({"topics": add}, {"topics": remove})).lists
    after = lists.over_filters(now).topics
    assert set(after) == (set(before) - set(remove)) | set(add)
    assert len(after) == len(set(after))
    assert bool(lists.lists) == (after != now.topics)


FILTERED = FlowSettings(
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
    assert topic_filter(FILTERED).decide("orders").reason == "'orders' of topics matches it"
    assert not group_filter(FILTERED).decide("connect-x").accepted
    assert property_filter(FILTERED).decide("retention.ms").accepted
    assert not property_filter(FILTERED).decide("min.insync.replicas").accepted


def test_a_class_decides_with_the_flows_lists() -> None:
    flow = replace(FILTERED, topic_filter_class=BY_PREFIX)
    decisions = {
        select_topic.topic: select_topic
        for select_topic in select_topics(flow, ["orders.eu", "x", "clicks", "orders.boom", "__o"])
    }
    assert {topic for topic, one in decisions.items() if one.accepted} == {"orders.eu"}
    assert decisions["orders.eu"].reason == "topic.filter.class company_filters.ByPrefix takes it"
    assert decisions["clicks"].reason == "topic.filter.class company_filters.ByPrefix leaves it out"
    assert decisions["orders.boom"].reason.endswith("ByPrefix failed on it: LookupError: no owner")
    assert decisions["__o"].reason == "internal topics are never copied"


def test_properties_and_groups_have_classes_too() -> None:
    flow = replace(
        FILTERED,
        group_filter_class=BY_PREFIX,
        config_property_filter_class=BY_PREFIX,
        groups=("g",),
    )
    assert group_filter(flow).decide("g1").accepted
    assert not property_filter(flow).decide("retention.ms").accepted, "it was given '.*' as a prefix"


def test_a_class_that_cannot_be_made_stops_the_flow() -> None:
    with pytest.raises(
        ConfigError, match=r"topic.filter.class 'company_filters.Unmakeable' cannot be instantiated: TypeError"
    ):
        topic_filter(replace(FILTERED, topic_filter_class=FilterClass("company_filters.Unmakeable", Unmakeable)))
