"""Values of copies where the source has, from ``server.properties``, what is the target's default."""

from __future__ import annotations

import pytest

from srm_common.domain.plans.plan import Plan
from srm_common.domain.topics.actions import AlterConfigs, Job
from srm_common.domain.topics.refresh_memory import EVERYTHING, Alteration, Alterations
from srm_common.domain.topics.topic_settings import Source, TopicSetting
from tests.unit.domain.plans.test_planning import ALWAYS, DEFAULTS, planned, settings

KEY, FOR_EVER, DAY = "retention.ms", "-1", "86400000"
SOURCE = settings() | {KEY: TopicSetting(DEFAULTS[KEY], Source.STATIC_BROKER)}


def with_copies(*copies: str, value: str = FOR_EVER, made: str | None = None, due: frozenset[Job] = EVERYTHING) -> Plan:
    there = settings() | {key: TopicSetting(kept, Source.TOPIC) for key, kept in {**ALWAYS, KEY: value}.items()}
    alterations = Alterations({} if made is None else {(f"A.{one}", KEY): Alteration(made, 1, 0, 0) for one in copies})
    source, target = {one: (1, SOURCE) for one in copies}, {f"A.{one}": (1, there) for one in copies}
    return planned(source, target, alterations=alterations, due=due)


@pytest.mark.parametrize("made", [None, DAY])
@pytest.mark.parametrize("due", [EVERYTHING, frozenset[Job]()])
def test_what_the_flow_has_not_set_stays_and_is_told_once(made: str | None, due: frozenset[Job]) -> None:
    """MirrorMaker 2 leaves it alone, too: it may be an operator's."""
    plan = with_copies("s", "t", made=made, due=due)
    assert plan.actions == ()
    assert plan.notices == (
        "retention.ms on B has a value of its own, which this flow is not known to have set, on A.s (-1), A.t (-1); "
        "A has B's default, 604800000; to take it off: kafka-configs.sh --alter --entity-type topics --entity-name ... "
        "--delete-config retention.ms",
    )


def test_what_the_flow_has_set_is_taken_off() -> None:
    plan = with_copies("t", value=DAY, made=DAY)
    (action,) = plan.actions
    assert isinstance(action, AlterConfigs)
    assert [(change.key, change.before, change.after) for change in action.changes] == [(KEY, DAY, None)]
    assert plan.notices == ()


def test_a_value_that_is_the_sources_is_not_worth_a_word() -> None:
    plan = with_copies("t", value=DEFAULTS[KEY])
    assert (plan.actions, plan.notices) == ((), ())
