from __future__ import annotations

from srm_common.domain.topics.topic_settings import LONG_MAX, broker_defaults, same_value, target_abilities


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
