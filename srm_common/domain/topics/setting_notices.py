"""What a person should know about the settings of copies and no action mends: drift, and changes that are undone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from srm_common.domain.amount import counted
from srm_common.domain.flow import FlowSettings
from srm_common.domain.topics.actions import AlterConfigs, SettingChange
from srm_common.domain.topics.refresh_memory import Alterations
from srm_common.domain.topics.topic_settings import FOLLOWED, Source, TargetAbilities, TopicSetting, same_value

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

    def unchanged(self, remote: str, changes: Iterable[SettingChange]) -> None:
        """These would be changed, but ``sync.topic.configs.enabled`` is off."""
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
        """One sentence a setting, whatever the number of topics."""
        found = [
            f"sync.topic.configs.enabled is false, so {key} stays as it is on {_some(places)}: {FOLLOWED[key]}"
            for key, places in sorted(self._left.items())
        ]
        found += [
            f"config.properties.exclude keeps {key} from being copied, and it differs on {_some(places)}"
            for key, places in sorted(self._excluded.items())
        ]
        name = self.flow.name
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
    """A sentence for each change of the action that was made before: somebody undoes it."""
    return [
        f"{action.topic}: {change.key} was set to {_value(change.after)} {counted(earlier.times, 'time')} since "
        f"{_time(earlier.first_ms)}, last at {_time(earlier.last_ms)}, and is {change.before} again: something on "
        f"{action.cluster} changes it back; stop that, or leave the setting to it by config.properties.exclude"
        for change in action.changes
        if (earlier := alterations.undone(action.topic, change.key, change.after)) is not None
    ]


def _value(value: str | None) -> str:
    return "the cluster's default" if value is None else value


def _some(places: list[str]) -> str:
    shown = ", ".join(places[:_EXAMPLES])
    more = len(places) - _EXAMPLES
    return f"{shown} and {more} more" if more > 0 else shown


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
