from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.topics.actions import Action, AlterConfigs, CreateTopic, GrowPartitions
from srm_common.usecases.topics.apply import outcome

TARGET = ClusterSettings(
    "b",
    "b:1",
    {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "srm",
        "sasl.password": "hidden",
    },
    {},
)
CREATE = CreateTopic("b", "a.t", 1, 1, (), "copy of t")


@pytest.mark.parametrize(
    ("action", "right"),
    [
        (CREATE, "Create on topic 'a.t'"),
        (GrowPartitions("b", "a.t", 1, 2, "t has 2 on a"), "Alter on topic 'a.t'"),
        (AlterConfigs("b", "a.t", (), "keep it like t"), "AlterConfigs on topic 'a.t'"),
    ],
)
def test_a_missing_right_is_named_with_the_principal(action: Action, right: str) -> None:
    error = outcome(TARGET, action, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)).error
    assert error is not None
    assert (
        f"; User:srm needs the permission {right} (kafka-acls.sh --add --allow-principal User:srm --operation" in error
    )
    assert "hidden" not in error


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (KafkaError.THROTTLING_QUOTA_EXCEEDED, "exceeded its controller_mutation_rate quota on the target"),
        (KafkaError.POLICY_VIOLATION, "a policy of the target's brokers (create.topic.policy.class.name"),
        (KafkaError.INVALID_CONFIG, "leave it out by config.properties.exclude"),
        (KafkaError._TIMED_OUT, "it is unknown whether it was done"),
    ],
)
def test_other_refusals_say_what_to_do(code: int, hint: str) -> None:
    fault = KafkaError(code)
    error = outcome(TARGET, CREATE, fault).error
    assert error is not None
    assert error.startswith(f"{fault.str()} ({fault.name()}); ")
    assert hint in error
    assert "needs the permission" not in error


def test_success() -> None:
    assert outcome(TARGET, CREATE, None).error is None
