from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.topics.topic_settings import (
    LONG_MAX,
    SettingRules,
    Source,
    TargetAbilities,
    TopicSetting,
    broker_defaults,
    same_value,
    target_abilities,
)
from tests.flow_settings import small_flow


def test_abilities_of_a_target() -> None:
    assert target_abilities({}, None).two_timestamp_limits
    assert not target_abilities({"log.retention.ms": "5"}, None).two_timestamp_limits
    assert target_abilities({"log.message.timestamp.before.max.ms": LONG_MAX}, None).two_timestamp_limits
    assert target_abilities({"remote.log.storage.system.enable": "true"}, None).tiered_storage


def test_lists_in_another_order_are_the_same() -> None:
    assert same_value("cleanup.policy", "compact,delete", "delete, compact")
    assert not same_value("retention.ms", "1", "2")
    assert not same_value("retention.ms", None, "2")


def test_broker_defaults_in_all_units() -> None:
    assert broker_defaults({"log.retention.hours": "168", "compression.type": "lz4"}) == {
        "compression.type": "lz4",
        "retention.ms": "604800000",
    }
    assert broker_defaults({"log.retention.ms": "5", "log.retention.hours": "1"})["retention.ms"] == "5"
    assert broker_defaults({"log.retention.ms": None, "log.retention.minutes": "-1"})["retention.ms"] == "-1"


def tiered_wishes(
    settings: Mapping[str, TopicSetting], use_defaults_from: Literal["source", "target"] = "target"
) -> dict[str, str | None]:
    """Of a target with tiered storage, by the settings of the source's topic."""
    source, target = (ClusterSettings.plaintext(alias, f"{alias}:1") for alias in ("a", "b"))
    flow = replace(small_flow(source, target, ".*"), use_defaults_from=use_defaults_from)
    rules = SettingRules(flow, target_abilities({"remote.log.storage.system.enable": "true"}, None))
    wishes = rules.wishes(settings)
    return {key: wish.value for key, wish in wishes.items() if key.startswith(("remote.", "local."))}


@pytest.mark.parametrize("use_defaults_from", ["target", "source"])
def test_a_source_without_tiered_storage_leaves_that_of_the_copies_alone(
    use_defaults_from: Literal["source", "target"],
) -> None:
    settings = {
        "remote.storage.enable": TopicSetting("false", Source.DEFAULT),
        "local.retention.ms": TopicSetting("-2", Source.DEFAULT),
        "local.retention.bytes": TopicSetting("-2", Source.DYNAMIC_BROKER),
    }
    assert not tiered_wishes(settings, use_defaults_from)


def test_tiered_storage_of_the_source_is_carried_over_but_not_turned_off() -> None:
    enabled = {
        "remote.storage.enable": TopicSetting("true", Source.TOPIC),
        "local.retention.ms": TopicSetting("3600000", Source.TOPIC),
    }
    assert tiered_wishes(enabled) == {"remote.storage.enable": "true", "local.retention.ms": "3600000"}
    disabled = {"remote.storage.enable": TopicSetting("false", Source.TOPIC)}
    assert not tiered_wishes(disabled)
    disabled |= {"remote.log.delete.on.disable": TopicSetting("true", Source.TOPIC)}
    assert tiered_wishes(disabled) == {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}


@pytest.mark.parametrize("origin", [Source.DEFAULT, Source.STATIC_BROKER])
@pytest.mark.parametrize(("value", "wanted"), [("604800000", None), ("86400000", "86400000")])
def test_a_copy_keeps_no_value_of_its_own_where_the_defaults_agree(
    origin: Source, value: str, wanted: str | None
) -> None:
    """It may have one from when the source topic, or either cluster, had another value."""
    flow = small_flow(ClusterSettings.plaintext("a", "a:1"), ClusterSettings.plaintext("b", "b:1"), "t")
    rules = SettingRules(flow, TargetAbilities({"retention.ms": "604800000"}))
    assert rules.wishes({"retention.ms": TopicSetting(value, origin)})["retention.ms"].value == wanted
