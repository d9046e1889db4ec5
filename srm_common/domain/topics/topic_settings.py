"""The settings that a remote topic needs, given those of its source topic.

MirrorMaker 2's rules (``MirrorSourceConnector.targetConfig``) decide first. A few settings are then set to the source's
effective values, whatever their origin: with other values, batches would be recompressed, rejected, or deleted
immediately.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from srm_common.domain.amount import counted, moment
from srm_common.domain.filters.flow_filters import property_filter
from srm_common.domain.flow import FlowSettings
from srm_common.domain.patterns.name_filter import PatternList
from srm_common.domain.topics.actions import AlterConfigs, SettingChange
from srm_common.domain.topics.refresh_memory import Alterations
from srm_common.domain.topics.refused_settings import MAX_MESSAGE

LONG_MAX = str(2**63 - 1)
TIMESTAMP_TYPE = "message.timestamp.type"
BEFORE_MAX, AFTER_MAX = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
DIFFERENCE_MAX = "message.timestamp.difference.max.ms"  # all that brokers before 3.6 have
#: Settings that follow the value in effect at the source, with the reason.
FOLLOWED = {
    "compression.type": "another codec makes the broker recompress every batch",
    "max.message.bytes": "smaller ones refuse batches",
    "retention.ms": "shorter ones delete old records as soon as they are copied",
    "retention.bytes": "smaller ones delete records as soon as they are copied",
    "cleanup.policy": "another policy keeps other records",
}
_TIMESTAMPS_OPEN = "records of any age must be accepted"
#: Settings that every copy is given, and can do without where its cluster refuses them.
OPTIONAL = frozenset({BEFORE_MAX, AFTER_MAX, DIFFERENCE_MAX, TIMESTAMP_TYPE})
#: MirrorMaker 2 excludes these by default, since it copies values of the source; copies are given values of ours.
_NEVER_COPIED = (DIFFERENCE_MAX, TIMESTAMP_TYPE)
#: Tiered storage is a property of a cluster; a target without it refuses these.
_TIERED = ("remote.", "local.retention.")
_REMOTE, _DELETES_REMOTE = "remote.storage.enable", "remote.log.delete.on.disable"


class Source(Enum):
    """Where a value comes from (``DescribeConfigsResponse.ConfigSource``)."""

    TOPIC = "topic"
    DYNAMIC_BROKER = "dynamic broker"
    STATIC_BROKER = "static broker"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """One setting of a topic as its cluster describes it; ``value`` is the one in effect."""

    value: str | None
    source: Source
    fixed: bool = False  # read-only or sensitive


@dataclass(frozen=True)
class TargetAbilities:
    """What is known of the target before a topic exists there.

    ``defaults`` are the values a topic without settings of its own gets, for the keys of :data:`FOLLOWED`; empty
    when the broker may not be asked. ``known`` are the settings its topics have; None when unknown.
    """

    defaults: Mapping[str, str]
    known: frozenset[str] | None = None
    tiered_storage: bool = False
    two_timestamp_limits: bool = True  # brokers from 3.6 on (KIP-937)

    def knows(self, key: str) -> bool:
        return self.known is None or key in self.known

    def default(self, key: str) -> str | None:
        return self.defaults.get(key)


@dataclass(frozen=True, slots=True)
class Wish:
    """The desired value of one setting of a remote topic; ``value`` None: no topic-level value. ``if_ours``: only if
    the flow has set the one that is there."""

    value: str | None
    reason: str
    if_ours: bool = False


def target_abilities(broker: Mapping[str, str | None], known: frozenset[str] | None) -> TargetAbilities:
    """From the settings of a broker (none without permission) and of any topic (None if there is none)."""
    # Without a topic to look at, a broker's own settings tell; without those, the broker is taken to be a new one.
    told_by_broker = not broker or f"log.{BEFORE_MAX}" in broker
    two_limits = told_by_broker if known is None else BEFORE_MAX in known
    tiered = broker.get("remote.log.storage.system.enable") == "true"
    return TargetAbilities(broker_defaults(broker), known, tiered, two_limits)


def broker_defaults(broker: Mapping[str, str | None]) -> dict[str, str]:
    """Values of topics without topic-level settings, from the settings of a broker."""
    found = {
        "compression.type": broker.get("compression.type"),
        "max.message.bytes": broker.get("message.max.bytes"),
        "retention.bytes": broker.get("log.retention.bytes"),
        "cleanup.policy": broker.get("log.cleanup.policy"),
        TIMESTAMP_TYPE: broker.get("log.message.timestamp.type"),
        "retention.ms": _retention_ms(broker),
    }
    return {key: value for key, value in found.items() if value is not None}


def _retention_ms(broker: Mapping[str, str | None]) -> str | None:
    for key, factor in (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)):
        value = broker.get(key)
        if value is not None:
            return value if int(value) < 0 else str(int(value) * factor)
    return None


class SettingRules:
    """The rules of one flow, ready to be asked topic by topic."""

    def __init__(self, flow: FlowSettings, target: TargetAbilities) -> None:
        self._chosen = property_filter(flow)
        self._chosen_by_others = PatternList(
            pattern for pattern in flow.config_properties_exclude if pattern.replace("\\", "") not in _NEVER_COPIED
        )
        self._excluded: dict[str, bool] = {}  # a few dozen keys, asked for once per topic
        self._defaults_from_source = flow.use_defaults_from == "source"
        self._target = target

    def _is_excluded(self, key: str) -> bool:
        known = self._excluded.get(key)
        if known is None:
            known = self._excluded[key] = not self._chosen.decide(key).accepted
        return known

    def _is_left_to_target(self, key: str) -> bool:
        """Whether a setting that every copy is given is excluded, other than by the expressions of the default list."""
        if key in _NEVER_COPIED:
            return self._chosen_by_others.matching(key) is not None
        return self._is_excluded(key)

    def wishes(self, source: Mapping[str, TopicSetting]) -> dict[str, Wish]:
        """What each setting of the remote topic should be. Settings that are not named may be anything."""
        wishes: dict[str, Wish] = {}
        for key, setting in source.items():
            if setting.fixed or setting.source is Source.STATIC_BROKER or setting.value is None:
                continue
            if not self._target.knows(key) or self._is_excluded(key):
                continue
            if key.startswith(_TIERED) and not self._carries_tiered(key, source):
                continue
            if setting.source is not Source.DEFAULT or self._defaults_from_source:
                wishes[key] = Wish(setting.value, "the source has it")
            else:
                wishes[key] = Wish(None, "the source leaves it at the default")
        for key, reason in FOLLOWED.items():
            pinned = source.get(key)
            if pinned is None or pinned.value is None or self._is_excluded(key):
                continue
            wish = wishes.get(key)
            if wish is not None and wish.value is not None:
                continue
            if not same_value(key, self._target.default(key), pinned.value):
                wishes[key] = Wish(pinned.value, f"in effect at the source, and {reason}")
            elif wish is None:
                # MirrorMaker 2 leaves it alone, so it may be an operator's, or have been pinned for another default.
                wishes[key] = Wish(None, "the source has what is the target's default", if_ours=True)
        limits = (BEFORE_MAX, AFTER_MAX) if self._target.two_timestamp_limits else (DIFFERENCE_MAX,)
        given = dict.fromkeys(limits, Wish(LONG_MAX, _TIMESTAMPS_OPEN))
        given[TIMESTAMP_TYPE] = Wish("CreateTime", "copies keep the time of each record")
        wishes |= {key: wish for key, wish in given.items() if not self._is_left_to_target(key)}
        return wishes

    def _carries_tiered(self, key: str, source: Mapping[str, TopicSetting]) -> bool:
        """A source without tiered storage does not undo what the target's operators have set on the copies. Brokers
        refuse to turn it off, and every other change with it, unless what is in the remote store may be deleted."""
        if not self._target.tiered_storage or source[key].source is not Source.TOPIC:
            return False
        deletes = source.get(_DELETES_REMOTE)
        return (key, source[key].value) != (_REMOTE, "false") or (deletes is not None and deletes.value == "true")

    def excluded(self, keys: Iterable[str]) -> list[str]:
        """Those of ``keys`` that ``config.properties.exclude`` keeps from being copied."""
        return [key for key in keys if self._is_excluded(key)]

    def left_out(self, source: Mapping[str, TopicSetting]) -> list[str]:
        """Topic-level settings of the source that the target does not know or cannot have."""
        return [
            key
            for key, setting in source.items()
            if setting.source is Source.TOPIC
            and not self._is_excluded(key)
            and (not self._target.knows(key) or (key.startswith(_TIERED) and not self._target.tiered_storage))
            and key not in (BEFORE_MAX, AFTER_MAX, DIFFERENCE_MAX)
        ]


def price(settings: Iterable[str]) -> str:
    """What it means that a topic does not have these settings, which its cluster has refused."""
    costs = {
        TIMESTAMP_TYPE: "it is not used if the cluster's default is LogAppendTime",
        MAX_MESSAGE: "it takes no record that is larger than its max.message.bytes",
    }
    limits = "the target may refuse records whose timestamps are old, or in the future"
    return ", and ".join(dict.fromkeys(costs.get(key, limits) for key in sorted(settings)))


def same_value(key: str, left: str | None, right: str | None) -> bool:
    """Whether two values of a setting mean the same; the order of a list such as ``compact,delete`` does not count."""
    if left == right:
        return True
    if left is None or right is None:
        return False
    if key == "cleanup.policy":
        return {part.strip() for part in left.split(",")} == {part.strip() for part in right.split(",")}
    return False


# What a person should know about the settings of copies and no action mends: drift, and changes that are undone.


#: Settings by which records vanish.
RETENTION = ("retention.ms", "retention.bytes", "cleanup.policy")
_EXAMPLES = 3


@dataclass
class Drift:
    """Collects, over all topics of a flow, settings that differ and stay so."""

    flow: FlowSettings
    target: TargetAbilities
    _left: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _excluded: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _defaults: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    _own: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def kept(self, remote: str, key: str, value: str | None) -> None:
        """The copy keeps a value that the flow has not set, and that is not the one in effect at the source."""
        self._own[key].append(f"{remote} ({value})")

    def unchanged(self, remote: str, changes: Iterable[SettingChange]) -> None:
        """These would be changed, but ``sync.topic.configs.enabled`` is off, or its interval negative."""
        for change in changes:
            if change.key in FOLLOWED:
                after = "the cluster's default" if change.after is None else change.after
                self._left[change.key].append(f"{remote} ({change.before} instead of {after})")

    def compare(
        self,
        remote: str,
        source: Mapping[str, TopicSetting],
        there: Mapping[str, TopicSetting] | None,
        excluded: Iterable[str],
    ) -> None:
        """One topic and its copy, None where that is not there yet; ``excluded`` are retention keys that are not
        copied."""
        for key in excluded:
            own, copy = source.get(key), None if there is None else there.get(key)
            if own is not None and copy is not None and not same_value(key, own.value, copy.value):
                self._excluded[key].append(f"{remote} ({copy.value}, source {own.value})")
        for key in RETENTION:
            setting = source.get(key)
            if setting is not None and setting.value is not None and setting.source is not Source.TOPIC:
                self._defaults[key][setting.value] += 1

    def notices(self) -> list[str]:
        """One sentence per setting, whatever the number of topics."""
        found = [
            f"sync.topic.configs.enabled is off, so {key} stays as it is on {some(places)}: {FOLLOWED[key]}"
            for key, places in sorted(self._left.items())
        ]
        found += [
            f"config.properties.exclude keeps {key} from being copied, and it differs on {some(places)}"
            for key, places in sorted(self._excluded.items())
        ]
        name = self.flow.name
        found += [
            f"{key} on {name.target} has a value of its own, which this flow is not known to have set, on "
            f"{some(places)}; "
            f"{name.source} has {name.target}'s default, {self.target.default(key)}; to take it off: kafka-configs.sh "
            f"--alter --entity-type topics --entity-name ... --delete-config {key}"
            for key, places in sorted(self._own.items())
        ]
        for key, values in sorted(self._defaults.items()):
            default = self.target.default(key)
            for value, topics in values.items():
                if default is not None and not same_value(key, value, default) and key not in self._excluded:
                    found.append(
                        f"the clusters' defaults differ: {key} is {value} on {name.source} and {default} on "
                        f"{name.target}; the copies of {counted(topics, 'topic')} without a value of "
                        f"{'its' if topics == 1 else 'their'} own are given {value}, so that nothing is deleted early"
                    )
        return found


def undone(action: AlterConfigs, alterations: Alterations) -> list[str]:
    """A sentence for each change of the action that was made before and reverted."""
    return [
        f"{action.topic}: {change.key} was set to {_value(change.after)} {counted(earlier.times, 'time')} since "
        f"{moment(earlier.first_ms)}, last at {moment(earlier.last_ms)}, and is {change.before} again: something on "
        f"{action.cluster} changes it back; stop that, or leave the setting to it by config.properties.exclude"
        for change in action.changes
        if (earlier := alterations.undone(action.topic, change.key, change.after)) is not None
    ]


def _value(value: str | None) -> str:
    return "the cluster's default" if value is None else value


def some(places: list[str]) -> str:
    """The first of a list, and how many there are besides."""
    shown = ", ".join(places[:_EXAMPLES])
    more = len(places) - _EXAMPLES
    return f"{shown} and {more} more" if more > 0 else shown
