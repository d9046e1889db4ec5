from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow.settings import FilterClass
from srm_common.domain.plans.plan import Plan
from srm_common.domain.plans.planning import SourceView, TargetView, make_plan
from srm_common.domain.topics.actions import ActionResult, AlterConfigs, CreateTopic, GrowPartitions, Job, SettingChange
from srm_common.domain.topics.refresh_memory import EVERYTHING, Alterations
from srm_common.domain.topics.replication import Brokers
from srm_common.domain.topics.selection import select_topics
from srm_common.domain.topics.topic_settings import (
    AFTER_MAX,
    BEFORE_MAX,
    DIFFERENCE_MAX,
    LONG_MAX,
    TIMESTAMP_TYPE,
    SettingRules,
    Source,
    TargetAbilities,
    TopicSetting,
    same_value,
    target_abilities,
)

FLOW = FlowSettings(
    FlowName("A", "B"),
    ClusterSettings.plaintext("A", "a:1"),
    ClusterSettings.plaintext("B", "b:1"),
    replication_factor=2,
    emit_heartbeats=False,
)
DEFAULTS = {
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "segment.bytes": "1073741824",
    "min.insync.replicas": "1",
    TIMESTAMP_TYPE: "CreateTime",
    BEFORE_MAX: LONG_MAX,
    AFTER_MAX: "3600000",
}
BROKER = {
    "compression.type": "producer",
    "message.max.bytes": "1048588",
    "log.retention.hours": "168",
    "log.retention.bytes": "-1",
    "log.cleanup.policy": "delete",
}
ABILITIES = TargetAbilities(DEFAULTS, frozenset(DEFAULTS))


def settings(**own: str) -> dict[str, TopicSetting]:
    topic_settings = {key: TopicSetting(value, Source.DEFAULT) for key, value in DEFAULTS.items()}
    topic_settings |= {key.replace("_", "."): TopicSetting(value, Source.TOPIC) for key, value in own.items()}
    return topic_settings


def planned(
    source: Mapping[str, tuple[int, dict[str, TopicSetting]]],
    target: Mapping[str, tuple[int, dict[str, TopicSetting]]] | None = None,
    *,
    flow: FlowSettings = FLOW,
    brokers: int = 3,
    missing: tuple[int, ...] = (),
    replicas: Mapping[str, int] | None = None,
    abilities: TargetAbilities = ABILITIES,
    due: frozenset[Job] = EVERYTHING,
    alterations: Alterations | None = None,
) -> Plan:
    target = target or {}
    return make_plan(
        flow,
        select_topics(flow, source),
        SourceView(
            {name: found[0] for name, found in source.items()}, {name: found[1] for name, found in source.items()}
        ),
        TargetView(
            {name: found[0] for name, found in target.items()},
            {name: found[1] for name, found in target.items()},
            Brokers(brokers, missing),
            abilities,
            replicas or {},
        ),
        due=due,
        alterations=alterations,
    )


def copied(
    own: dict[str, TopicSetting], abilities: TargetAbilities = ABILITIES, flow: FlowSettings = FLOW
) -> dict[str, str]:
    (action,) = planned({"t": (1, own)}, abilities=abilities, flow=flow).actions
    assert isinstance(action, CreateTopic)
    return dict(action.configs)


ALWAYS = {BEFORE_MAX: LONG_MAX, AFTER_MAX: LONG_MAX, TIMESTAMP_TYPE: "CreateTime"}


def test_a_topic_that_is_named_and_not_shown_is_told() -> None:
    named = replace(FLOW, topics=("t", "ordres", "a.b", "a.c", "x.*", "heartbeats", "(a|b)"))
    assert planned({"t": (1, settings()), "a-b": (1, settings())}, flow=named).notices == (
        "ordres, which topics names, is not copied: A shows no such topic",
        "a.c, which topics names, is not copied: A shows no such topic",
    )
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "srm"}
    secured = replace(FLOW, topics=("t",), source=replace(FLOW.source, confluent=login))
    assert planned({}, flow=secured).notices == (
        "t, which topics names, is not copied: A shows no such topic; if there is one, User:srm needs the permission "
        "Describe on topic 't' (kafka-acls.sh --add --allow-principal User:srm --operation Describe --topic t)",
    )
    assert planned({"t": (1, settings())}, flow=secured).notices == ()
    own = replace(named, topic_filter_class=FilterClass("mine.Filter", list))
    assert make_plan(own, [], SourceView({}, {}), TargetView({}, {}, Brokers(3))).notices == ()


def test_a_topic_with_defaults_gets_what_must_hold_and_nothing_else() -> None:
    assert copied(settings()) == ALWAYS


def test_own_settings_of_the_source_are_copied_and_excluded_ones_not() -> None:
    own = settings(segment_bytes="5000000", min_insync_replicas="2", cleanup_policy="compact")
    assert copied(own) == {**ALWAYS, "segment.bytes": "5000000", "cleanup.policy": "compact"}


def test_a_log_append_time_source_still_gets_a_create_time_copy() -> None:
    own = settings()
    own[TIMESTAMP_TYPE] = TopicSetting("LogAppendTime", Source.TOPIC)
    assert copied(own, flow=replace(FLOW, config_properties_exclude=()))[TIMESTAMP_TYPE] == "CreateTime"


def test_values_in_effect_follow_where_the_target_defaults_differ() -> None:
    own = settings()
    own["retention.ms"] = TopicSetting("-1", Source.STATIC_BROKER)
    abilities = TargetAbilities({**DEFAULTS, "compression.type": "gzip"}, frozenset(DEFAULTS))
    assert copied(own, abilities) == {**ALWAYS, "retention.ms": "-1", "compression.type": "producer"}
    unknown = copied(settings(), TargetAbilities({}))
    assert unknown == {**ALWAYS, **{key: DEFAULTS[key] for key in ("compression.type", "max.message.bytes",
                       "retention.ms", "retention.bytes", "cleanup.policy")}}  # fmt: skip


def test_a_dynamic_broker_setting_counts_as_the_topics_own() -> None:
    own = settings()
    own["segment.bytes"] = TopicSetting("77777777", Source.DYNAMIC_BROKER)
    assert copied(own)["segment.bytes"] == "77777777"
    own["segment.bytes"] = TopicSetting("77777777", Source.STATIC_BROKER)
    assert "segment.bytes" not in copied(own)


@pytest.mark.parametrize(
    ("exclude", "given"),
    [
        # MirrorMaker 2's own lists, with and without what Java's properties files make of a backslash.
        (FLOW.config_properties_exclude, {BEFORE_MAX, AFTER_MAX, TIMESTAMP_TYPE}),
        (("message.timestamp.type", "message.timestamp.difference.max.ms"), {BEFORE_MAX, AFTER_MAX, TIMESTAMP_TYPE}),
        ((r"message\.timestamp\.before\.max\.ms",), {AFTER_MAX, TIMESTAMP_TYPE}),
        ((r"message\.timestamp\.(before|after).*",), {TIMESTAMP_TYPE}),
        ((r"message\.timestamp\..*",), set()),
    ],
)
def test_what_copies_are_given_can_be_left_to_the_target(exclude: tuple[str, ...], given: set[str]) -> None:
    flow = replace(FLOW, config_properties_exclude=exclude)
    assert copied(settings(), flow=flow).keys() == given
    own = settings(message_timestamp_after_max_ms="5", message_timestamp_type="LogAppendTime")
    assert copied(own, flow=flow).keys() == given
    changed = {change.key for one in planned({"t": (1, own)}, {"A.t": (1, settings())}, flow=flow).actions
               if isinstance(one, AlterConfigs) for change in one.changes}  # fmt: skip
    assert changed == given & {AFTER_MAX}
    older = TargetAbilities(DEFAULTS, frozenset(DEFAULTS), two_timestamp_limits=False)
    assert (DIFFERENCE_MAX in copied(settings(), older, flow)) == (TIMESTAMP_TYPE in given)


def test_older_brokers_get_the_older_limit() -> None:
    older = frozenset(DEFAULTS) - {BEFORE_MAX, AFTER_MAX} | {DIFFERENCE_MAX}
    assert copied(settings(), target_abilities(BROKER, older)) == {
        DIFFERENCE_MAX: LONG_MAX,
        TIMESTAMP_TYPE: "CreateTime",
    }


def test_what_the_target_does_not_know_is_left_out_and_said() -> None:
    own = settings(remote_storage_enable="true", local_retention_ms="5", new_thing="1")
    plan = planned({topic: (1, own) for topic in "stuvw"})
    action = plan.actions[0]
    assert isinstance(action, CreateTopic)
    assert dict(action.configs) == ALWAYS
    (notice,) = plan.notices
    lacking = "B does not have local.retention.ms, new.thing, remote.storage.enable"
    assert notice == f"{lacking}; left out of A.s, A.t, A.u and 2 more"
    tiered = TargetAbilities(DEFAULTS, None, tiered_storage=True)
    assert copied(own, tiered)["remote.storage.enable"] == "true"


def test_defaults_from_the_source() -> None:
    flow = replace(FLOW, use_defaults_from="source")
    assert copied(settings(), flow=flow)["segment.bytes"] == "1073741824"


def test_settings_are_brought_back() -> None:
    there = settings(retention_bytes="2000", segment_bytes="9", min_insync_replicas="2", cleanup_policy="compact")
    plan = planned({"t": (1, settings(retention_bytes="1000"))}, {"A.t": (1, there)})
    (action,) = plan.actions
    assert isinstance(action, AlterConfigs)
    assert {change.key: (change.before, change.after) for change in action.changes} == {
        "cleanup.policy": ("compact", None),
        "retention.bytes": ("2000", "1000"),
        "segment.bytes": ("9", None),
        AFTER_MAX: ("3600000", LONG_MAX),
    }


def test_a_change_that_somebody_undoes_is_made_again_and_said() -> None:
    there = settings(retention_bytes="2000", message_timestamp_after_max_ms=LONG_MAX)
    there[AFTER_MAX] = TopicSetting(LONG_MAX, Source.TOPIC)
    views = ({"t": (1, settings(retention_bytes="1000"))}, {"A.t": (1, there)})
    first = planned(*views)
    assert first.notices == ()
    memory = Alterations().and_done(map(ActionResult, first.actions), 1_700_000_000_000)
    again = planned(*views, alterations=memory)
    assert again.actions == first.actions
    assert again.notices == (
        "A.t: retention.bytes was set to 1000 1 time since 2023-11-14 22:13:20 UTC, last at 2023-11-14 22:13:20 UTC, "
        "and is 2000 again: something on B changes it back; stop that, or leave the setting to it by "
        "config.properties.exclude",
    )


def test_retention_that_differs_is_said_once_for_all_topics() -> None:
    abilities = TargetAbilities({**DEFAULTS, "retention.ms": "1000"}, frozenset(DEFAULTS))
    source = {f"t{number}": (1, settings()) for number in range(5)}
    assert planned(source, abilities=abilities).notices == (
        "the clusters' defaults differ: retention.ms is 604800000 on A and 1000 on B; the copies of 5 topics without a "
        "value of their own are given 604800000, so that nothing is deleted early",
    )
    there = {f"A.t{number}": (1, settings(retention_ms="7")) for number in range(5)}
    flow = replace(FLOW, config_properties_exclude=(r"retention\..*",), sync_topic_configs=False)
    assert planned(source, there, abilities=abilities, flow=flow).notices == (
        "config.properties.exclude keeps retention.ms from being copied, and it differs on A.t0 (7, source 604800000), "
        "A.t1 (7, source 604800000), A.t2 (7, source 604800000) and 2 more",
    )
    gzip = {"A.t0": (1, settings(compression_type="gzip"))}
    assert planned(source, gzip, flow=replace(FLOW, sync_topic_configs=False)).notices == (
        "sync.topic.configs.enabled is off, so compression.type stays as it is on A.t0 (gzip instead of the "
        "cluster's default): another codec makes the broker recompress every batch",
    )


@pytest.mark.parametrize("job", list(Job))
def test_only_what_is_due_is_planned(job: Job) -> None:
    source = {"new": (1, settings()), "grown": (2, settings(segment_bytes="5"))}
    target = {"A.grown": (1, settings())}
    kinds = {type(action) for action in planned(source, target, due=frozenset({job})).actions}
    expected = {
        Job.TOPICS: {CreateTopic, GrowPartitions},
        Job.CONFIGS: {AlterConfigs},
        Job.ACLS: set(),
        Job.SCHEMAS: set(),
    }
    assert kinds == expected[job]


def test_partitions() -> None:
    there = settings(message_timestamp_after_max_ms=LONG_MAX)
    there[AFTER_MAX] = TopicSetting(LONG_MAX, Source.TOPIC)
    plan = planned({"less": (6, settings()), "more": (3, settings())}, {"A.less": (3, there), "A.more": (4, there)})
    assert plan.actions == (GrowPartitions("B", "A.less", 3, 6, "less has 6 on A"),)
    (notice,) = plan.notices
    assert (
        notice == "more partitions on B than on A: A.more (4 instead of 3); the extra ones get nothing from this flow"
    )


def test_replicas_are_lowered_to_the_brokers_and_said() -> None:
    (action,) = planned({"t": (1, settings())}, brokers=1).actions
    assert isinstance(action, CreateTopic)
    assert (action.replication_factor, action.reason) == (
        1,
        "copy of t; 2 replicas requested, but the target has 1 broker",
    )
    (action,) = planned({"t": (1, settings())}, brokers=1, missing=(7,)).actions
    assert isinstance(action, CreateTopic)
    assert (action.replication_factor, action.reason) == (2, "copy of t; broker 7 does not respond")
    (action,) = planned({"t": (1, settings())}, flow=replace(FLOW, replication_factor=-1)).actions
    assert isinstance(action, CreateTopic)
    assert action.replication_factor == -1
    assert "replicas by the broker's default" in str(action)


def test_copies_with_fewer_replicas_than_there_are_brokers_for_are_told() -> None:
    views = ({"t": (1, settings()), "u": (1, settings())}, {"A.t": (1, settings()), "A.u": (1, settings())})
    replicas = {"A.t": 1, "A.u": 2, "other": 1}
    assert planned(*views, replicas=replicas).notices == (
        "fewer replicas than replication.factor = 2 on B: A.t (1); kafka-reassign-partitions.sh adds some",
    )
    assert planned(*views, replicas=replicas, brokers=1).notices == ()
    assert planned(*views, replicas=replicas, flow=replace(FLOW, replication_factor=-1)).notices == ()


def test_heartbeats_come_first() -> None:
    flow = replace(FLOW, emit_heartbeats=True)
    first = planned({"t": (1, settings())}, flow=flow).actions[0]
    assert isinstance(first, CreateTopic)
    assert (first.topic, first.partitions, first.configs) == ("heartbeats", 1, (("cleanup.policy", "compact"),))
    assert not planned({}, {"heartbeats": (1, settings())}, flow=flow).actions


def test_a_copy_that_would_falsify_times_is_refused_with_the_way_out() -> None:
    there = settings()
    there[TIMESTAMP_TYPE] = TopicSetting("LogAppendTime", Source.TOPIC)
    plan = planned({"t": (1, settings())}, {"A.t": (1, there)})
    assert not plan.actions
    (decision,) = plan.decisions
    assert (decision.accepted, decision.remote_topic) == (False, "A.t")
    assert "--add-config message.timestamp.type=CreateTime" in decision.reason


def test_a_plan_is_printable() -> None:
    plan = planned({"t": (2, settings(retention_ms="5")), "__x": (1, settings())})
    data = json.loads(json.dumps(plan.to_json()))
    assert data["flow"] == "A->B"
    assert data["actions"][0]["after"]["configs"]["retention.ms"] == "5"
    assert [topic["accepted"] for topic in data["topics"]] == [False, True]
    assert plan.render().splitlines()[:2] == [
        "A->B: 1 topic of 2 copied",
        "  create topic A.t on B: 2 partitions, 2 replicas (copy of t)",
    ]
    change = SettingChange("k", "1", None, "why")
    result = ActionResult(AlterConfigs("B", "A.t", (change,), "r"), error="no")
    assert str(result) == "FAILED: alter topic A.t on B: k 1 -> the cluster's default (why): no"
    assert result.to_json()["error"] == "no"
    assert plan.accepted[0].topic == "t"


values = st.sampled_from(["1", "2", "3"])
owned = st.dictionaries(
    st.sampled_from(["retention.ms", "compression.type", "segment.bytes", "cleanup.policy"]), values
)


@given(owned, owned, owned, st.sampled_from(["source", "target"]))
def test_after_a_plan_is_applied_the_next_one_is_empty(
    here: dict[str, str], there: dict[str, str], defaults: dict[str, str], use: str
) -> None:
    flow = replace(FLOW, use_defaults_from=use)  # type: ignore[arg-type]
    target_defaults = {**DEFAULTS, **defaults}
    abilities = TargetAbilities(target_defaults, frozenset(DEFAULTS))
    source = {"t": (1, settings(**{key.replace(".", "_"): value for key, value in here.items()}))}

    def described(own: Mapping[str, str]) -> dict[str, TopicSetting]:
        topic_settings = {key: TopicSetting(value, Source.STATIC_BROKER) for key, value in target_defaults.items()}
        return topic_settings | {key: TopicSetting(value, Source.TOPIC) for key, value in own.items()}

    created = copied(source["t"][1], abilities, flow)
    assert not planned(source, {"A.t": (1, described(created))}, abilities=abilities, flow=flow).actions
    own = dict(there)
    for action in planned(source, {"A.t": (1, described(own))}, abilities=abilities, flow=flow).actions:
        assert isinstance(action, AlterConfigs)
        for change in action.changes:
            if change.after is None:
                del own[change.key]
            else:
                own[change.key] = change.after
    assert not planned(source, {"A.t": (1, described(own))}, abilities=abilities, flow=flow).actions
    wishes = SettingRules(flow, abilities).wishes(source["t"][1])
    for key in ("compression.type", "retention.ms", "cleanup.policy"):
        in_effect = own.get(key, target_defaults[key])
        assert same_value(key, in_effect, source["t"][1][key].value), wishes.get(key)


def test_a_hundred_thousand_partitions() -> None:
    count = 10_000
    there = settings()
    there[AFTER_MAX] = TopicSetting(LONG_MAX, Source.TOPIC)
    source = {f"topic-{number}": (10, settings()) for number in range(count)}
    target = {f"A.topic-{number}": (10 if number % 100 else 9, there) for number in range(count)}
    assert len(planned(source, target).actions) == count // 100


@pytest.mark.parametrize(("job", "failing"), [(Job.TOPICS, "A.new"), (Job.CONFIGS, "A.old"), (Job.ACLS, None)])
def test_settings_that_cannot_be_read_fail_what_is_due(job: Job, failing: str | None) -> None:
    decisions = select_topics(replace(FLOW, topics=("new", "old")), ["new", "old"])
    source = SourceView({"new": 1, "old": 1}, {}, {"new": "no right", "old": "no right"})
    plan = make_plan(FLOW, decisions, source, TargetView({"A.old": 1}, {}, Brokers(1), ABILITIES), due=frozenset({job}))
    assert [action.topic for action in plan.actions] == ([] if failing is None else [failing])
    assert [(one.topic, one.accepted) for one in plan.decisions] == [("new", False), ("old", True)]
    assert plan.decisions[0].reason == "its settings cannot be read, so A.new is not created: no right"
