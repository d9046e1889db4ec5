"""Keys that determine how a run copies, when it starts, which alarms it raises, and its raw metrics."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from srm_common.domain.flow import COMPRESSION_TYPES
from srm_common.domain.settings.key import (
    ALL_LEVELS,
    CONNECTION_LEVELS,
    CONNECTOR_LEVELS,
    LARGEST_INT,
    WORKER_LEVELS,
    Key,
    Kind,
    Level,
    consumer_spellings,
    producer_spellings,
)

_TO_MM2 = "MirrorMaker 2's default."


def copying_keys() -> Iterator[Key]:
    key = partial(Key, section="Copying", levels=ALL_LEVELS)
    yield key(
        "exactly.once.source.support",
        Kind.CHOICE,
        "enabled",
        levels=WORKER_LEVELS,
        flow_field="exactly_once",
        choices=("disabled", "preparing", "enabled"),
    ).means(
        "`enabled`: data, offsets and the offset map commit in one Kafka transaction. `disabled`: at least once, "
        "for targets that do not allow transactions. `preparing` acts as `disabled`.",
        "It costs about 8 %, and nothing is copied twice. MirrorMaker 2's default is `disabled`.",
    )
    yield key(
        "tasks.max", Kind.WHOLE, "2", levels=(Level.TOP, Level.CONNECTORS, Level.CLUSTER, Level.FLOW), minimum=1
    ).means(
        "Slots of a flow: its partitions are distributed over this many Spark tasks.",
        "One slot uses about one core; MirrorMaker 2's default is 1.",
    )
    yield key("on.data.loss", Kind.CHOICE, "fail", choices=("fail", "skip", "reset")).means(
        "What to do if records disappeared at the source before they were copied: `fail` stops the partition, `skip` "
        "continues with the first remaining record, `reset` copies the whole log again from its start.",
        "Data loss never goes unnoticed.",
    )
    yield key("on.target.loss", Kind.CHOICE, "fail", choices=("fail", "skip", "reset")).means(
        "What to do with a topic whose copy was deleted on the target, or deleted and re-created by others: "
        "`fail` leaves it alone until an operator decides (`srm-control apply --recreate` or `--resume`), `skip` "
        "re-creates it and continues where the flow stopped, `reset` re-creates it and copies everything again. The "
        "same applies to a partition whose copy lost committed records, for example by an unclean leader election.",
        "What was deleted is not re-created by accident, and a gap does not go unnoticed.",
    )
    yield key("chunk.bytes", Kind.WHOLE, "67108864", unit="bytes", minimum=1).means(
        "Approximate size of the record batches in one transaction.",
        "A transaction costs a few milliseconds, which is negligible for 64 MiB.",
    )
    yield key("chunk.seconds", Kind.NUMBER, "5", unit="seconds", minimum=0.01).means(
        "Longest duration of one transaction.", "Readers of committed records wait at most this long."
    )
    yield key("chunk.linger.ms", Kind.WHOLE, "200", unit="milliseconds", minimum=1).means(
        "How long a record may wait for its transaction in a long run (`run.max.seconds`), as long as the flow keeps "
        "up; half of it on average.",
        "A delay of a tenth of a second, at about ten transactions per second and slot.",
    )
    yield key(
        "fetch.bytes",
        Kind.WHOLE,
        "16777216",
        unit="bytes",
        minimum=1,
        maximum=LARGEST_INT,
        also=consumer_spellings("fetch.max.bytes"),
    ).means(
        "Bytes that a slot requests in one fetch.",
        "With `fetch.partition.bytes` and `tasks.max` it limits the memory of a task.",
    )
    yield key(
        "fetch.partition.bytes",
        Kind.WHOLE,
        "4194304",
        unit="bytes",
        minimum=1,
        maximum=LARGEST_INT,
        also=consumer_spellings("max.partition.fetch.bytes"),
    ).means(
        "Bytes of one partition in one fetch; a larger batch is still returned whole.",
        "Keeps one busy partition from filling every fetch.",
    )
    yield key(
        "fetch.max.wait.ms",
        Kind.WHOLE,
        "500",
        unit="milliseconds",
        minimum=0,
        maximum=LARGEST_INT,
        also=consumer_spellings("fetch.max.wait.ms"),
    ).means(
        "How long a broker of the source may delay the response to a fetch while it has no data: limited to between "
        "10 ms and half of `request.timeout.ms`. A partition that is retried may wait as long.",
        "Kafka's client default: a slot that is up to date polls each broker twice a second.",
    )
    yield key(
        "compression.type",
        Kind.CHOICE,
        "producer",
        choices=("producer", *COMPRESSION_TYPES),
        also=producer_spellings("compression.type"),
    ).means(
        "Codec of the copies. `producer`: batches keep their codec and are copied unopened. With any other value, "
        "batches in another codec are recompressed, their records unchanged; one that then exceeds the topic's "
        "`max.message.bytes` is split.",
        "Opening batches costs many times as much as copying them ([performance.md](performance.md)).",
    )
    for codec, default, lowest, highest, meaning in (
        ("gzip", "-1", -1, 9, "-1 is zlib's default, 6."),
        ("lz4", "9", 1, 17, "9 is fast; any other takes several times as long, 12 and more are the same."),
        ("zstd", "3", -131072, 22, "Below 1 it is faster and saves less."),
    ):
        yield key(
            f"compression.{codec}.level",
            Kind.WHOLE,
            default,
            minimum=lowest,
            maximum=highest,
            also=producer_spellings(f"compression.{codec}.level"),
        ).means(
            f"Level for `compression.type = {codec}`. {meaning}",
            "The default and the meaning are those of Kafka's producer (KIP-390).",
        )
    yield key(
        "transaction.timeout.ms",
        Kind.WHOLE,
        "30000",
        unit="milliseconds",
        minimum=1000,
        maximum=LARGEST_INT,
        also=producer_spellings("transaction.timeout.ms"),
    ).means(
        "After this time the target's coordinator aborts a transaction whose owner is gone.",
        "A dead run delays readers of committed records for at most this long.",
    )
    yield key(
        "request.timeout.ms",
        Kind.WHOLE,
        "30000",
        unit="milliseconds",
        levels=CONNECTION_LEVELS,
        minimum=1,
        maximum=LARGEST_INT,
    ).means(
        "How long to wait for a broker's response. As a connection setting it may also be set for a cluster, a side or "
        "a client.",
        "Kafka's client default.",
    )
    yield key(
        "admin.timeout.ms",
        Kind.WHOLE,
        "60000",
        unit="milliseconds",
        minimum=1,
        maximum=LARGEST_INT,
        also=tuple((level, "admin.default.api.timeout.ms") for level in (Level.FLOW, Level.CONNECTORS, Level.TOP)),
        levels=CONNECTOR_LEVELS,
    ).means(
        "How long to wait for topics, settings and ACLs to be listed or changed; at most 30 s for consumer groups and "
        "state topics.",
        _TO_MM2,
    )
    yield key("retry.timeout.seconds", Kind.NUMBER, "60", unit="seconds", minimum=0).means(
        "How long a partition is retried within a run before it is reported as failed. A run waits as long for its own "
        "state, but at least 30 s.",
        "Longer than a broker's restart or a leader election.",
    )


def scheduling_keys() -> Iterator[Key]:
    key = partial(Key, section="Scheduling", levels=ALL_LEVELS)
    yield key("schedule.interval.seconds", Kind.NUMBER, "30", unit="seconds", minimum=1).means(
        "Time between two runs of the flow's DAG.", "Airflow can start runs of a DAG about this often without strain."
    )
    yield key("run.max.seconds", Kind.NUMBER, "0", unit="seconds", minimum=0).means(
        "How long a run keeps reading. 0: one bounded pass. With a value the delay is a fraction of a second "
        "(`chunk.linger.ms`) instead of a schedule interval, and each of the `tasks.max` slots permanently occupies "
        "one of Spark's cores.",
        "A run that ends can be judged.",
    )
    yield key("task.retries", Kind.WHOLE, "2", flow_field="retries", minimum=0).means(
        "How often Airflow retries a failed task within a run.", "The next run starts soon anyway."
    )
    yield key(
        "task.retry.delay.seconds", Kind.NUMBER, "10", unit="seconds", flow_field="retry_delay_seconds", minimum=0
    ).means("Delay before a retry.", "A broker's restart takes about that long.")
    yield key(
        "task.execution.timeout.seconds",
        Kind.NUMBER,
        "21600",
        unit="seconds",
        flow_field="execution_timeout_seconds",
        minimum=0,
    ).means(
        "After this time a task is terminated. 0 turns it off.",
        "Long enough for a first copy; what was committed until then stays committed.",
    )
    yield key("airflow.pool", Kind.TEXT, "default_pool").means(
        "Airflow pool of the task that copies; `{source}` and `{target}` stand for the aliases, so that "
        "`srm_{target}` is one pool per target cluster. Airflow never starts tasks in a pool that does not exist.",
        "The pool that exists in every Airflow.",
    )
    yield key("airflow.spark.connection", Kind.TEXT, "spark", flow_field="spark_connection").means(
        "Airflow connection that says where Spark runs (`local[2]`, `spark://host:7077`).", "One Spark for all flows."
    )
    yield key("spark.min.bytes", Kind.WHOLE, "1048576", unit="bytes", minimum=0).means(
        "A run with less than this to copy does not use Spark: the task copies by itself, with the same code. The "
        "measure is the estimated size of what the source holds beyond the committed offsets; topics that were never "
        "copied, and long runs (`run.max.seconds`), always use Spark. 0: every run does.",
        "Starting Spark costs 4 CPU-seconds and more, copying a megabyte milliseconds. If runs copy some megabytes "
        "each, 67108864 avoids most starts: copying that much costs a tenth of a CPU-second, 1.5 in the worst case.",
    )


def alarm_keys() -> Iterator[Key]:
    key = partial(Key, section="Health and alarms", levels=ALL_LEVELS)
    yield key("lag.objective.records", Kind.WHOLE_OR_NONE, "none", unit="records", minimum=0).means(
        "How many records the flow may lag behind, over all its partitions. Above it the flow counts as catching up, "
        "and the alarm `lag_objective` is raised. With `none` no lag raises an alarm.",
        "What lag is acceptable depends on the data.",
    )
    yield key("stalled.after.seconds", Kind.NUMBER_OR_AUTO, "auto", unit="seconds", minimum=1).means(
        "After how long without a finished run the flow counts as stalled, and without a successful one the alarm "
        "`stalled` is raised. `auto`: four times `schedule.interval.seconds` (or `run.max.seconds`, if that is "
        "longer), at least two minutes.",
        "One run is due, one is late, two were slow.",
    )
    yield key("certificate.expiry.warning.days", Kind.NUMBER, "30", unit="days", minimum=0).means(
        "How long before the end of a certificate the alarm `certificate_expiry` is raised. After each run every "
        "broker of both clusters is connected once, and its certificate, the authorities above it and the flow's own "
        "certificate are looked at.",
        "A month is enough to order a certificate by hand. Shorten it where certificates are renewed automatically and "
        "live for less.",
    )
    yield key("open.transaction.alarm.seconds", Kind.NUMBER, "1200", unit="seconds", minimum=0).means(
        "How long a transaction at the source may hold a partition back until the alarm `open_transaction` is raised. "
        "Records behind it are not copied before it ends.",
        "Brokers end transactions after `transaction.max.timeout.ms`, 15 minutes by default, so an older one hangs. "
        "Raise it where that is raised, as for Flink.",
    )
    yield key("alarm.notifiers", Kind.NAMES, "", flow_field="").means(
        "Names of the notifiers that send alarms, configured by the keys below; see "
        "[operations.md](operations.md#notifications). Each alarm is sent when it is raised, when it becomes worse in "
        "certain ways, and when it is resolved. If a flow has a notifier, there is a DAG `srm.watch`, which sends "
        "`stalled`.",
        "Metrics and the Replications page show alarms without notifiers.",
    )
    yield key("alarm.notifier.*", Kind.TEXT, None).means(
        "`alarm.notifier.<name>.class` is the dotted path of an Airflow notifier, "
        "`alarm.notifier.<name>.<argument>` one of its arguments: a text, in which Airflow renders templates such as "
        "`{{ alarm.text }}`, or JSON (a list, a number, true).",
        "Recipients are site-specific.",
    )


def metrics_topic_keys() -> Iterator[Key]:
    key = partial(Key, section="Raw metrics", levels=ALL_LEVELS)
    yield key("metrics.topic.enabled", Kind.SWITCH, "false", flow_field="metrics_topic").means(
        "Whether the report of each run is also written to `srm-metrics.<source>.internal` on the target, for your own "
        "programs and for remote services; see [metrics.md](metrics.md#raw-metrics).",
        "Nothing here needs it.",
    )
    yield key("metrics.topic.retention.ms", Kind.WHOLE, "604800000", unit="milliseconds", minimum=60_000).means(
        "How long that topic keeps reports, if the flow creates it.", "A week; the metrics store keeps what is older."
    )
