from __future__ import annotations

from dataclasses import replace

import pytest

from srm_common.domain.topics.actions import CreateTopic
from srm_common.domain.topics.topic_settings import TopicSetting
from srm_common.domain.transforms.chain import Predicate, PredicateKind, Step, StepKind
from tests.unit.domain.plans.test_planning import FLOW, planned, settings

DEAD = replace(
    FLOW,
    transforms=(Step("s", StepKind.DROP_HEADERS, ("h",)),),
    errors_tolerance="all",
    errors_deadletterqueue_topic_name="dead",
)
Settings = dict[str, TopicSetting]
WEEK, YEAR = "604800000", "31536000000"


def test_it_is_created_to_keep_what_is_as_old_as_the_sources_records() -> None:
    (creation,) = (one for one in planned({}, flow=DEAD).actions if isinstance(one, CreateTopic))
    assert dict(creation.configs) == {
        "cleanup.policy": "delete",
        "max.message.bytes": "16777216",
        "retention.ms": "-1",
    }
    assert creation.optional == set(dict(creation.configs))


@pytest.mark.parametrize(
    ("dead", "source", "told"),
    [
        (settings(retention_ms=WEEK), settings(retention_ms=WEEK), None),
        (settings(retention_ms="-1"), settings(retention_ms="-1"), None),
        (
            settings(retention_ms=WEEK),
            settings(retention_ms=YEAR),
            "retention.ms=604800000, and t on A has retention.ms=31536000000: ",
        ),
        (
            settings(retention_ms=WEEK),
            settings(retention_ms="-1"),
            "retention.ms=604800000, and t on A has retention.ms=-1: ",
        ),
        (
            settings(),
            settings(cleanup_policy="compact"),
            "retention.ms=604800000, and t on A has cleanup.policy=compact: ",
        ),
        (
            settings(retention_ms="-1", cleanup_policy="compact"),
            settings(),
            "cleanup.policy=compact: dead letters with",
        ),
        ({}, settings(retention_ms=YEAR), None),
    ],
)
def test_one_that_loses_dead_letters_is_told(dead: Settings, source: Settings, told: str | None) -> None:
    plan = planned({"t": (1, source)}, {"dead": (1, dead)}, flow=DEAD)
    found = [notice for notice in plan.notices if notice.startswith("dead letter topic")]
    assert len(found) == (told is not None)
    assert told is None or found[0].startswith(f"dead letter topic dead on B has {told}")
    assert planned({"t": (1, source)}, {"dead": (1, dead)}).notices == ()


def test_topics_whose_records_cannot_fail_do_not_count() -> None:
    """Such as heartbeats, which are compacted."""
    (step,) = DEAD.transforms
    only_t = replace(DEAD, transforms=(replace(step, predicate=Predicate("p", PredicateKind.TOPIC_NAME, "A\\.[st]")),))
    source = {
        "heartbeats": (1, settings(cleanup_policy="compact")),
        "s": (1, settings()),
        "t": (1, settings()),
        "u": (1, settings(retention_ms="-1")),
    }
    dead = {"dead": (1, settings(retention_ms=WEEK))}
    assert planned(source, dead, flow=only_t).notices == ()
    (notice,) = planned(source, dead, flow=DEAD).notices
    assert " and u on A has retention.ms=-1: " in notice
