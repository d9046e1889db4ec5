"""Configs of topics and brokers: Kafka's defaults, the brokers' settings, and alterations.

Names, defaults and synonyms: Kafka 4.3's ``TopicConfig``, ``LogConfig`` and ``ServerTopicConfigSynonyms``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from srm_common.testing.fake_cluster.messages import Answer, Call, Refused

UNKNOWN_TOPIC, INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION = 3, 40, 42, 44
TOPIC, BROKER = 2, 4
_DYNAMIC_TOPIC, _DYNAMIC_BROKER, _DYNAMIC_DEFAULT, _STATIC, _DEFAULT = 1, 2, 3, 4, 5
_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3
_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE, _LIST = 1, 2, 3, 5, 6, 7
_LONGEST = str((1 << 63) - 1)


@dataclass(frozen=True)
class _Setting:
    """``synonym`` is the broker's setting with the default of all topics. ``others`` are further ones in other units
    (hours, minutes), each with its unit in that of the topic's setting."""

    default: str
    kind: int = _LONG
    synonym: str = ""
    choices: tuple[str, ...] = ()
    least: float | None = None
    others: Mapping[str, int] = field(default_factory=dict)


Policy = Callable[[Mapping[str, str]], str | None]
"""The settings that a topic is to get -> why it may not; None where it may."""

_HOUR_MS = 3_600_000
TOPIC_SETTINGS: Mapping[str, _Setting] = {
    "cleanup.policy": _Setting("delete", _LIST, "log.cleanup.policy", ("delete", "compact")),
    "compression.gzip.level": _Setting("-1", _INT, "compression.gzip.level"),
    "compression.lz4.level": _Setting("9", _INT, "compression.lz4.level"),
    "compression.type": _Setting(
        "producer",
        _STRING,
        "compression.type",
        ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    "compression.zstd.level": _Setting("3", _INT, "compression.zstd.level"),
    "delete.retention.ms": _Setting("86400000", _LONG, "log.cleaner.delete.retention.ms", least=0),
    "file.delete.delay.ms": _Setting("60000", _LONG, "log.segment.delete.delay.ms", least=0),
    "flush.messages": _Setting(_LONGEST, _LONG, "log.flush.interval.messages", least=1),
    "flush.ms": _Setting(_LONGEST, _LONG, "log.flush.interval.ms", least=0),
    "follower.replication.throttled.replicas": _Setting("", _LIST),
    "index.interval.bytes": _Setting("4096", _INT, "log.index.interval.bytes", least=0),
    "leader.replication.throttled.replicas": _Setting("", _LIST),
    "local.retention.bytes": _Setting("-2", _LONG, "log.local.retention.bytes", least=-2),
    "local.retention.ms": _Setting("-2", _LONG, "log.local.retention.ms", least=-2),
    "max.compaction.lag.ms": _Setting(_LONGEST, _LONG, "log.cleaner.max.compaction.lag.ms", least=1),
    "max.message.bytes": _Setting("1048588", _INT, "message.max.bytes", least=0),
    "message.timestamp.after.max.ms": _Setting("3600000", _LONG, "log.message.timestamp.after.max.ms", least=0),
    "message.timestamp.before.max.ms": _Setting(_LONGEST, _LONG, "log.message.timestamp.before.max.ms", least=0),
    "message.timestamp.type": _Setting(
        "CreateTime", _STRING, "log.message.timestamp.type", ("CreateTime", "LogAppendTime")
    ),
    "min.cleanable.dirty.ratio": _Setting("0.5", _DOUBLE, "log.cleaner.min.cleanable.ratio", least=0),
    "min.compaction.lag.ms": _Setting("0", _LONG, "log.cleaner.min.compaction.lag.ms", least=0),
    "min.insync.replicas": _Setting("1", _INT, "min.insync.replicas", least=1),
    "preallocate": _Setting("false", _BOOLEAN, "log.preallocate"),
    "remote.log.copy.disable": _Setting("false", _BOOLEAN),
    "remote.log.delete.on.disable": _Setting("false", _BOOLEAN),
    "remote.storage.enable": _Setting("false", _BOOLEAN),
    "retention.bytes": _Setting("-1", _LONG, "log.retention.bytes"),
    "retention.ms": _Setting(
        "604800000",
        _LONG,
        "log.retention.ms",
        least=-1,
        others={"log.retention.minutes": 60_000, "log.retention.hours": _HOUR_MS},
    ),
    "segment.bytes": _Setting("1073741824", _INT, "log.segment.bytes", least=1 << 20),
    "segment.index.bytes": _Setting("10485760", _INT, "log.index.size.max.bytes", least=4),
    "segment.jitter.ms": _Setting(
        "0", _LONG, "log.roll.jitter.ms", least=0, others={"log.roll.jitter.hours": _HOUR_MS}
    ),
    "segment.ms": _Setting("604800000", _LONG, "log.roll.ms", least=1, others={"log.roll.hours": _HOUR_MS}),
    "unclean.leader.election.enable": _Setting("false", _BOOLEAN, "unclean.leader.election.enable"),
}

#: Settings of brokers besides the defaults of topics, with the values that LocalKafka gives them.
BROKER_DEFAULTS: Mapping[str, str] = {
    "auto.create.topics.enable": "true",
    "default.replication.factor": "1",
    "delete.topic.enable": "true",
    "num.partitions": "3",
    "offsets.topic.num.partitions": "5",
    "replica.selector.class": "",
    "transaction.max.timeout.ms": "900000",
    "transaction.state.log.num.partitions": "5",
}


@dataclass(frozen=True)
class Found:
    """A setting as a broker describes it."""

    value: str
    source: int


class Configs:
    """The configs of a cluster.

    Args:
        static: what the brokers were started with.
        topics: returns the settings of a topic, None if it does not exist.
        nodes: the ids of the brokers.
    """

    def __init__(
        self, static: Mapping[str, str], topics: Callable[[str], dict[str, str] | None], nodes: Iterable[int]
    ) -> None:
        self._static = dict(static)
        self._topics, self._nodes = topics, frozenset(nodes)
        #: Altered settings by broker; those of "" apply to all brokers. Clusters of Kafka 4.1 and newer begin with
        #: this one (KIP-966).
        self._dynamic = {"": {"min.insync.replicas": static.get("min.insync.replicas", "1")}}
        #: What topics may be set to, besides what every broker checks.
        self.policy: Policy | None = None

    def handlers(self) -> dict[str, Any]:
        return {"DescribeConfigs": self._describe, "IncrementalAlterConfigs": self._alter}

    def broker(self, key: str) -> str:
        """A setting of the brokers."""
        for source in (self._dynamic.get("", {}), self._static, BROKER_DEFAULTS):
            if key in source:
                return source[key]
        return ""

    def of_topic(self, overrides: Mapping[str, str], key: str) -> str:
        """The value of a topic's setting."""
        return self._found(overrides, key).value

    def check(self, settings: Mapping[str, str | None]) -> None:
        """Raises Refused where a topic may not have these settings."""
        for key, value in settings.items():
            setting = TOPIC_SETTINGS.get(key)
            if setting is None:
                raise Refused(INVALID_CONFIG, f"Unknown topic config name: {key}")
            if value is None:
                raise Refused(INVALID_CONFIG, f"Null value not supported for topic configs: {key}")
            if not _valid(setting, value):
                raise Refused(INVALID_CONFIG, f"Invalid value {value} for configuration {key}")

    def permit(self, settings: Mapping[str, str]) -> None:
        """Raises Refused where the policy does not let a topic be set to these."""
        reason = None if self.policy is None else self.policy(settings)
        if reason is not None:
            raise Refused(POLICY_VIOLATION, reason)

    def described(self, overrides: Mapping[str, str]) -> dict[str, Found]:
        """All settings of a topic."""
        return {key: self._found(overrides, key) for key in TOPIC_SETTINGS}

    def _found(self, overrides: Mapping[str, str], key: str) -> Found:
        setting = TOPIC_SETTINGS[key]
        if key in overrides:
            return Found(overrides[key], _DYNAMIC_TOPIC)
        for source, values in ((_DYNAMIC_DEFAULT, self._dynamic.get("", {})), (_STATIC, self._static)):
            if setting.synonym in values:
                return Found(values[setting.synonym], source)
            for name, unit in setting.others.items():
                if name in values:
                    return Found(str(int(values[name]) * unit), source)
        return Found(setting.default, _DEFAULT)

    # ---- requests

    def _describe(self, call: Call) -> Answer:
        return {"results": [self._describe_one(call, resource) for resource in call.body.resources]}

    def _describe_one(self, call: Call, resource: Any) -> Answer:
        out: Answer = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
        try:
            call.check(resource.resource_name)
            if resource.resource_type == TOPIC:
                overrides = self._topics(resource.resource_name)
                if overrides is None:
                    raise Refused(UNKNOWN_TOPIC, "This server does not host this topic-partition.")
                found = self.described(overrides)
            elif resource.resource_type == BROKER:
                found = self._of_broker(resource.resource_name)
            else:
                raise Refused(INVALID_REQUEST, f"resource type {resource.resource_type}")
        except Refused as refused:
            return out | {"error_code": refused.code, "error_message": refused.message, "configs": []}
        keys = resource.configuration_keys
        return out | {
            "error_code": 0,
            "error_message": None,
            "configs": [
                {
                    "name": key,
                    "value": one.value,
                    "read_only": False,
                    "config_source": one.source,
                    "is_sensitive": False,
                    "synonyms": [{"name": key, "value": one.value, "source": one.source}]
                    if call.body.include_synonyms
                    else [],
                    "config_type": TOPIC_SETTINGS[key].kind if key in TOPIC_SETTINGS else _STRING,
                    "documentation": None,
                }
                for key, one in found.items()
                if keys is None or key in keys
            ],
        }

    def _of_broker(self, name: str) -> dict[str, Found]:
        if name and (not name.isdigit() or int(name) not in self._nodes):
            raise Refused(INVALID_REQUEST, f"Unexpected broker id, got {name}")
        if not name:
            return {key: Found(value, _DYNAMIC_DEFAULT) for key, value in self._dynamic.get("", {}).items()}
        found = {key: Found(value, _DEFAULT) for key, value in BROKER_DEFAULTS.items()}
        found |= {
            setting.synonym: Found(setting.default, _DEFAULT) for setting in TOPIC_SETTINGS.values() if setting.synonym
        }
        found |= {key: Found(value, _STATIC) for key, value in self._static.items()}
        found |= {key: Found(value, _DYNAMIC_DEFAULT) for key, value in self._dynamic.get("", {}).items()}
        return found | {key: Found(value, _DYNAMIC_BROKER) for key, value in self._dynamic.get(name, {}).items()}

    def _alter(self, call: Call) -> Answer:
        responses = []
        for resource in call.body.resources:
            code, message = 0, None
            try:
                call.check(resource.resource_name)
                self._alter_one(resource, validate_only=call.body.validate_only)
            except Refused as refused:
                code, message = refused.code, refused.message
            responses.append(
                {
                    "error_code": code,
                    "error_message": message,
                    "resource_type": resource.resource_type,
                    "resource_name": resource.resource_name,
                }
            )
        return {"responses": responses}

    def _alter_one(self, resource: Any, *, validate_only: bool) -> None:
        name = resource.resource_name
        if resource.resource_type == TOPIC:
            topics = self._topics(name)
            if topics is None:
                raise Refused(UNKNOWN_TOPIC, f"The topic '{name}' does not exist.")
            current = topics
        elif resource.resource_type == BROKER:
            if name and (not name.isdigit() or int(name) not in self._nodes):
                raise Refused(INVALID_REQUEST, f"Unexpected broker id, got {name}")
            current = self._dynamic.setdefault(name, {})
        else:
            raise Refused(INVALID_REQUEST, f"resource type {resource.resource_type}")
        changed = dict(current)
        for config in resource.configs:
            if config.config_operation == _SET:
                changed[config.name] = config.value
            elif config.config_operation == _DELETE:
                changed.pop(config.name, None)
            else:
                changed[config.name] = self._list_change(changed, config)
        if resource.resource_type == TOPIC:
            self.check(
                {
                    config.name: changed.get(config.name, "")
                    for config in resource.configs
                    if config.name not in TOPIC_SETTINGS
                }
            )
            self.check(changed)
            self.permit({one.name: changed[one.name] for one in resource.configs if one.name in changed})
        if not validate_only:
            current.clear()
            current.update(changed)

    def _list_change(self, settings: Mapping[str, str], one: Any) -> str:
        setting = TOPIC_SETTINGS.get(one.name)
        if setting is None or setting.kind != _LIST:
            raise Refused(INVALID_CONFIG, f"Can't append to or subtract from {one.name}, which is not a list")
        values = [item for item in self.of_topic(settings, one.name).split(",") if item]
        named = [item for item in one.value.split(",") if item]
        if one.config_operation == _SUBTRACT:
            return ",".join(item for item in values if item not in named)
        return ",".join(values + [item for item in named if item not in values])


def _valid(setting: _Setting, value: str) -> bool:
    if setting.kind == _BOOLEAN:
        return value.strip().lower() in ("true", "false")
    if setting.kind in (_INT, _LONG, _DOUBLE):
        try:
            number = float(value) if setting.kind == _DOUBLE else int(value)
        except ValueError:
            return False
        limit = 1 << (31 if setting.kind == _INT else 63)
        return -limit <= number < limit and (setting.least is None or number >= setting.least)
    parts = [part.strip() for part in value.split(",")] if setting.kind == _LIST else [value]
    return not setting.choices or all(part in setting.choices for part in parts if part or setting.kind != _LIST)
