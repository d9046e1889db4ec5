"""The policy and the filters that a configuration names, with classes of a user's own that really are imported."""

from __future__ import annotations

import itertools
import re
import sys
import textwrap
from pathlib import Path

import pytest

from srm_common.domain.flow import FlowName
from srm_common.domain.flow.settings import FilterClass
from srm_common.domain.policy import (
    POLICY_METHODS,
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    MigratingReplicationPolicy,
    policy_name,
)
from srm_common.errors import ConfigError
from srm_common.settings_files.user_classes import filter_class, policy_of

FLOW = FlowName("east", "west")
MINE = """
from srm_common.domain.policy import DefaultReplicationPolicy

class Regional(DefaultReplicationPolicy):
    settings = {}

    def configure(self, settings):
        object.__setattr__(self, "settings", settings)

    def format_remote_topic(self, source_alias, topic):
        return f"{topic}{self.settings['replication.policy.mark']}{source_alias}"

class Bare:
    def format_remote_topic(self, source_alias, topic):
        return topic

class Choosy(DefaultReplicationPolicy):
    def configure(self, settings):
        raise KeyError("replication.policy.regions")

class Needy(DefaultReplicationPolicy):
    def __init__(self, region):
        pass

def function():
    pass
"""
_numbers = itertools.count()


def policy(written: str, **settings: str) -> object:
    return policy_of(written, "_", False, FLOW, {key.replace("__", "."): value for key, value in settings.items()})


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that can be imported, of a name that no other test has used."""
    name = f"mine_{next(_numbers)}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(MINE))
    (tmp_path / f"{name}_broken.py").write_text("import nowhere_to_be_found\n")
    monkeypatch.syspath_prepend(tmp_path)
    return name


@pytest.mark.parametrize("prefix", ["", "org.apache.kafka.connect.mirror.", "srm_common.domain.policy."])
def test_shipped_policies_by_their_names_here_and_in_java(prefix: str) -> None:
    assert policy(prefix + "DefaultReplicationPolicy") == DefaultReplicationPolicy("_", False)
    assert policy(prefix + "IdentityReplicationPolicy") == IdentityReplicationPolicy("_", False, "east")
    assert policy(prefix + "MigratingReplicationPolicy") == MigratingReplicationPolicy("_", False, "east")


def test_a_class_of_a_user_is_made_and_configured(module: str) -> None:
    found = policy(f"{module}.Regional", replication__policy__mark="@")
    assert found.format_remote_topic("east", "orders") == "orders@east"  # type: ignore[attr-defined]
    assert found.settings == {  # type: ignore[attr-defined]
        "replication.policy.mark": "@",
        "source.cluster.alias": "east",
        "target.cluster.alias": "west",
    }
    assert policy_name(found) == f"{module}.Regional"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("{}.Bare", r"lacks topic_source, upstream_topic, original_topic, is_heartbeats_topic, .*policies\.md"),
        ("{}.Choosy", "cannot be instantiated: KeyError: 'replication.policy.regions'"),
        ("{}.Needy", "cannot be instantiated: TypeError: .*region"),
        ("{}.Missing", "has no 'Missing'"),
        ("{}.function", "is not a class"),
        ("{}_broken.Policy", "cannot be imported: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("com.example.Mine", r"no Python module 'com' here \(Java classes are not loaded\); use Default"),
        ("Mine", "no policy 'Mine'; use DefaultReplicationPolicy, Identity"),
    ],
)
def test_a_class_that_cannot_be_used_is_one_sentence(module: str, name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        policy(name.format(module))


def test_the_methods_asked_for_are_those_of_the_protocol() -> None:
    assert set(POLICY_METHODS) == {
        "format_remote_topic",
        "topic_source",
        "upstream_topic",
        "original_topic",
        "is_heartbeats_topic",
        "is_checkpoints_topic",
        "is_internal_topic",
        "heartbeats_topic",
        "checkpoints_topic",
        "offset_syncs_topic",
    }


@pytest.fixture
def company_filters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "company_filters.py").write_text("class Odd:\n    def accepts(self, name): ...\n\nnumber = 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "company_filters", raising=False)


@pytest.mark.usefixtures("company_filters")
def test_a_filter_of_the_users_own_is_loaded() -> None:
    found = filter_class("company_filters.Odd", "DefaultTopicFilter")
    assert found is not None
    assert found == FilterClass("company_filters.Odd", sys.modules["company_filters"].Odd)


@pytest.mark.parametrize("written", ["DefaultTopicFilter", "org.apache.kafka.connect.mirror.DefaultTopicFilter"])
def test_javas_own_class_means_the_lists(written: str) -> None:
    assert filter_class(written, "DefaultTopicFilter") is None


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("MyFilter", "there is no filter 'MyFilter'; use DefaultTopicFilter, or the dotted path of a Python class"),
        (
            "com.example.Mine",
            "'com.example.Mine' cannot be imported: there is no Python module 'com' here (Java",
        ),
        ("company_filters.Other", "module 'company_filters' has no 'Other'"),
        ("company_filters.number", "'company_filters.number' is not a class with a method accepts(name)"),
    ],
)
@pytest.mark.usefixtures("company_filters")
def test_what_is_no_filter_is_refused(written: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        filter_class(written, "DefaultTopicFilter")
