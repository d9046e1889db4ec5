from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.filters.filter_edit import FilterEdit, edited
from srm_common.domain.filters.flow_filters import FilterLists, FlowFilters
from srm_common.errors import ConfigError

IN_FILE = FlowFilters(("pay", "orders.*"), ("orders\\.x",), (".*",), ())
patterns = st.lists(st.sampled_from(["a", "b", "c.*", "pay", "orders.*"]), max_size=4)


def test_an_edit_starts_from_the_list_that_counts_and_leaves_the_others_in_the_file() -> None:
    done = edited(IN_FILE, FilterLists(), FilterEdit(add={"topics": ["clicks"]}, remove={"topics": ["pay"]}))
    assert done.lists.to_json() == {"topics": ["orders.*", "clicks"]}
    assert done.notes == ()


def test_an_edit_goes_on_from_an_earlier_one() -> None:
    lists = FilterLists.of({"topics": ["a"], "groups": ["g"]})
    done = edited(IN_FILE, lists, FilterEdit(add={"topics.exclude": ["y"]}))
    assert done.lists.to_json() == {"topics": ["a"], "topics.exclude": ["orders\\.x", "y"], "groups": ["g"]}


def test_what_changes_nothing_is_said() -> None:
    edit = FilterEdit(add={"topics": ["pay", "orders.eu"]}, remove={"topics": ["nothing"], "topics.exclude": ["z"]})
    done = edited(IN_FILE, FilterLists(), edit)
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
    done = edited(IN_FILE, FilterLists.of({"topics": ["a"]}), FilterEdit(put=put))
    assert done.lists.to_json() == {"topics": [], "groups": ["g1"]}


def test_lists_may_go_back_to_the_file() -> None:
    lists = FilterLists.of({"topics": ["a"], "topics.exclude": ["b"], "groups": ["g"]})
    done = edited(IN_FILE, lists, FilterEdit(add={"topics": ["x"]}, reset=("topics", "topics.exclude")))
    assert done.lists.to_json() == {"topics": ["pay", "orders.*", "x"], "groups": ["g"]}


def test_an_expression_that_cannot_be_used_is_refused_with_its_position() -> None:
    with pytest.raises(
        ConfigError, match=r"topics: 'a\[' is not a usable expression: a '\[' is not closed at position 2"
    ):
        edited(IN_FILE, FilterLists(), FilterEdit(add={"topics": ["b", "a["]}))


@given(patterns, patterns, patterns)
def test_sets_behave_like_sets(before: list[str], add: list[str], remove: list[str]) -> None:
    now = FlowFilters(tuple(dict.fromkeys(before)), (), (), ())
    lists = edited(now, FilterLists(), FilterEdit({"topics": add}, {"topics": remove})).lists
    after = lists.over_filters(now).topics
    assert set(after) == (set(before) - set(remove)) | set(add)
    assert len(after) == len(set(after))
    assert bool(lists.lists) == (after != now.topics)
