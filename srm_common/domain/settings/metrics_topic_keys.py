"""Keys for the topic with raw metrics, for consumers other than our own metrics store."""

from __future__ import annotations

from collections.abc import Iterator

from srm_common.domain.settings.key import ALL_LEVELS, Key, Kind


def metrics_topic_keys() -> Iterator[Key]:
    section = "Raw metrics"
    yield Key(
        "metrics.topic.enabled",
        section,
        Kind.SWITCH,
        "false",
        "Whether the report of each run is also written to `srm-metrics.<source>.internal` on the target, for your own "
        "programs and for remote services; see [metrics.md](metrics.md#raw-metrics).",
        "Nothing here needs it.",
        levels=ALL_LEVELS,
        field="metrics_topic",
    )
    yield Key(
        "metrics.topic.retention.ms",
        section,
        Kind.WHOLE,
        "604800000",
        "How long that topic keeps reports, if the flow creates it.",
        "A week; the metrics store keeps what is older.",
        unit="milliseconds",
        minimum=60_000,
        levels=ALL_LEVELS,
        field="metrics_topic_retention_ms",
    )
