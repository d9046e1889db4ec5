"""Metrics of MirrorMaker 2 that are exported to Prometheus under their original names."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MirrorMakerMetric:
    """A metric of MirrorMaker 2 (``MirrorSourceMetrics``, ``MirrorCheckpointMetrics``) that Prometheus is given under
    its name there; ``text`` says what it is here."""

    attribute: str
    text: str


_LAST_RUN = "in the newest run"
_AVERAGED = (
    "on average since the run before; 0 once no run has been reported for a minute and for two schedule periods. Of "
    "topics: over the last five minutes, or three runs."
)
_ARRIVED = f"age of records {_LAST_RUN}, at the commit of their copies; MirrorMaker 2 measures it when it reads them."
_TAKEN = "From a record's timestamp to its commit: the"
_OF_GROUP = "From fetching a group's offsets to its checkpoint; one value per group, of its newest checkpoint."

MIRROR_MAKER_METRICS = (
    MirrorMakerMetric("record-count", "Records copied by all runs."),
    MirrorMakerMetric("record-rate", f"Records copied per second, {_AVERAGED}"),
    MirrorMakerMetric("byte-count", "Bytes copied by all runs; of whole batches, where MirrorMaker 2 counts values."),
    MirrorMakerMetric("byte-rate", f"Bytes copied per second, {_AVERAGED}"),
    MirrorMakerMetric("record-age-ms", "Age of the newest record that was copied, when the run was reported."),
    *(
        MirrorMakerMetric(
            f"record-age-ms-{end}",
            f"{word} {_ARRIVED}",
        )
        for end, word in (("min", "Minimum"), ("avg", "Average"), ("max", "Maximum"))
    ),
    MirrorMakerMetric("replication-latency-ms", f"{_TAKEN} average {_LAST_RUN}."),
    *(
        MirrorMakerMetric(f"replication-latency-ms-{end}", f"{_TAKEN} {word} {_LAST_RUN}.")
        for end, word in (("min", "minimum"), ("avg", "average"), ("max", "maximum"))
    ),
    MirrorMakerMetric(
        "replication-records-lag", "Source offsets that are not copied yet, as in Streams Replication Manager."
    ),
    *(MirrorMakerMetric(f"checkpoint-latency-ms{end}", _OF_GROUP) for end in ("", "-min", "-avg", "-max")),
)
