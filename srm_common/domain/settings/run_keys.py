"""Keys that determine how a run copies, and when it starts."""

from __future__ import annotations

from collections.abc import Iterator

from srm_common.domain.flow import COMPRESSION_TYPES
from srm_common.domain.settings.key import (
    ALL_LEVELS,
    CONNECTION_LEVELS,
    WORKER_LEVELS,
    Key,
    Kind,
    Level,
    consumer_spellings,
    producer_spellings,
)

_BROKER_DEFAULT = "-1 leaves it to the broker."
_TO_MM2 = "MirrorMaker 2's default."


def copying_keys() -> Iterator[Key]:
    section = "Copying"
    yield Key(
        "exactly.once.source.support",
        section,
        Kind.CHOICE,
        "enabled",
        "`enabled`: data, offsets and the offset map commit in one Kafka transaction. `disabled`: at least once, "
        "for targets that do not allow transactions. `preparing` acts as `disabled`.",
        "It costs about 8 %, and nothing is copied twice. MirrorMaker 2's default is `disabled`.",
        levels=WORKER_LEVELS,
        choices=("disabled", "preparing", "enabled"),
        field="exactly_once",
    )
    yield Key(
        "tasks.max",
        section,
        Kind.WHOLE,
        "2",
        "Slots of a flow: its partitions are distributed over this many Spark tasks.",
        "One slot uses about one core; MirrorMaker 2's default is 1.",
        minimum=1,
        field="tasks_max",
        levels=(Level.TOP, Level.CONNECTORS, Level.CLUSTER, Level.FLOW),
    )
    yield Key(
        "on.data.loss",
        section,
        Kind.CHOICE,
        "fail",
        "What to do if records disappeared at the source before they were copied: `fail` the partition, `skip` to "
        "the first remaining record, or `reset` according to `consumer.auto.offset.reset`.",
        "Data loss never goes unnoticed.",
        levels=ALL_LEVELS,
        choices=("fail", "skip", "reset"),
        field="on_data_loss",
    )
    yield Key(
        "on.target.loss",
        section,
        Kind.CHOICE,
        "fail",
        "What to do with a topic whose copy was deleted on the target, or deleted and re-created by others: "
        "`fail` leaves it alone until an operator decides (`srm-control apply --recreate` or `--resume`), `skip` "
        "re-creates it and continues where the flow stopped, `reset` re-creates it and copies everything again. The "
        "same applies to a partition whose copy lost committed records, for example by an unclean leader election.",
        "What was deleted is not re-created by accident, and a gap does not go unnoticed.",
        levels=ALL_LEVELS,
        choices=("fail", "skip", "reset"),
        field="on_target_loss",
    )
    yield Key(
        "chunk.bytes",
        section,
        Kind.WHOLE,
        "67108864",
        "Approximate size of the record batches in one transaction.",
        "A transaction costs a few milliseconds, which is negligible for 64 MiB.",
        unit="bytes",
        minimum=1,
        levels=ALL_LEVELS,
        field="chunk_bytes",
    )
    yield Key(
        "chunk.seconds",
        section,
        Kind.NUMBER,
        "5",
        "Longest duration of one transaction.",
        "Readers of committed records wait at most this long.",
        unit="seconds",
        minimum=0.01,
        levels=ALL_LEVELS,
        field="chunk_seconds",
    )
    yield Key(
        "chunk.linger.ms",
        section,
        Kind.WHOLE,
        "200",
        "How long a record may wait for its transaction in a long run (`run.max.seconds`), as long as the flow keeps "
        "up; half of it on average.",
        "A delay of a tenth of a second, at about ten transactions per second and slot.",
        unit="milliseconds",
        minimum=1,
        levels=ALL_LEVELS,
        field="chunk_linger_ms",
    )
    yield Key(
        "fetch.bytes",
        section,
        Kind.WHOLE,
        "16777216",
        "Bytes that a slot requests in one fetch.",
        "With `fetch.partition.bytes` and `tasks.max` it limits the memory of a task.",
        unit="bytes",
        minimum=1,
        levels=ALL_LEVELS,
        field="fetch_bytes",
        also=consumer_spellings("fetch.max.bytes"),
    )
    yield Key(
        "fetch.partition.bytes",
        section,
        Kind.WHOLE,
        "4194304",
        "Bytes of one partition in one fetch; a larger batch is still returned whole.",
        "Keeps one busy partition from filling every fetch.",
        unit="bytes",
        minimum=1,
        levels=ALL_LEVELS,
        field="fetch_partition_bytes",
        also=consumer_spellings("max.partition.fetch.bytes"),
    )
    yield Key(
        "fetch.max.wait.ms",
        section,
        Kind.WHOLE,
        "500",
        "How long a broker of the source may delay the response to a fetch while it has no data: limited to between "
        "10 ms and half of `request.timeout.ms`. A partition that is retried may wait as long.",
        "Kafka's client default: a slot that is up to date polls each broker twice a second.",
        unit="milliseconds",
        minimum=0,
        levels=ALL_LEVELS,
        field="fetch_max_wait_ms",
        also=consumer_spellings("fetch.max.wait.ms"),
    )
    yield Key(
        "compression.type",
        section,
        Kind.CHOICE,
        "producer",
        "Codec of the copies. `producer`: batches keep their codec and are copied unopened. With any other value, "
        "batches in another codec are recompressed, their records unchanged; one that then exceeds the topic's "
        "`max.message.bytes` is split.",
        "Opening batches costs many times as much as copying them ([performance.md](performance.md)).",
        levels=ALL_LEVELS,
        choices=("producer", *COMPRESSION_TYPES),
        field="compression_type",
        also=producer_spellings("compression.type"),
    )
    for codec, default, lowest, highest, meaning in (
        ("gzip", "-1", -1, 9, "-1 is zlib's default, 6."),
        (
            "lz4",
            "9",
            1,
            17,
            "9 is fast; any other takes several times as long, 12 and more are the same.",
        ),
        ("zstd", "3", -131072, 22, "Below 1 it is faster and saves less."),
    ):
        yield Key(
            f"compression.{codec}.level",
            section,
            Kind.WHOLE,
            default,
            f"Level for `compression.type = {codec}`. {meaning}",
            "The default and the meaning are those of Kafka's producer (KIP-390).",
            minimum=lowest,
            maximum=highest,
            levels=ALL_LEVELS,
            field=f"compression_{codec}_level",
            also=producer_spellings(f"compression.{codec}.level"),
        )
    yield Key(
        "transaction.timeout.ms",
        section,
        Kind.WHOLE,
        "30000",
        "After this time the target's coordinator aborts a transaction whose owner is gone.",
        "A dead run delays readers of committed records for at most this long.",
        unit="milliseconds",
        minimum=1000,
        levels=ALL_LEVELS,
        field="transaction_timeout_ms",
        also=producer_spellings("transaction.timeout.ms"),
    )
    yield Key(
        "request.timeout.ms",
        section,
        Kind.WHOLE,
        "30000",
        "How long to wait for a broker's response. As a connection setting it may also be set for a cluster, a side or "
        "a client.",
        "Kafka's client default.",
        unit="milliseconds",
        minimum=1,
        levels=CONNECTION_LEVELS,
        field="request_timeout_ms",
    )
    yield Key(
        "admin.timeout.ms",
        section,
        Kind.WHOLE,
        "60000",
        "How long to wait for topics, settings and ACLs to be listed or changed; no more than 30 s where it is "
        "consumer groups or what lies in state topics.",
        _TO_MM2,
        unit="milliseconds",
        minimum=1,
        field="admin_timeout_ms",
        also=(
            (Level.FLOW, "admin.default.api.timeout.ms"),
            (Level.CONNECTORS, "admin.default.api.timeout.ms"),
            (Level.TOP, "admin.default.api.timeout.ms"),
        ),
    )
    yield Key(
        "retry.timeout.seconds",
        section,
        Kind.NUMBER,
        "60",
        "How long a partition is retried within a run before it is reported as failed. A run waits as long for its own "
        "state, but at least 30 s.",
        "Longer than a broker's restart or a leader election.",
        unit="seconds",
        minimum=0,
        levels=ALL_LEVELS,
        field="retry_timeout_seconds",
    )


def scheduling_keys() -> Iterator[Key]:
    section = "Scheduling"
    yield Key(
        "schedule.interval.seconds",
        section,
        Kind.NUMBER,
        "30",
        "Time between two runs of the flow's DAG.",
        "Airflow can start runs of a DAG about this often without strain.",
        unit="seconds",
        minimum=1,
        levels=ALL_LEVELS,
        field="schedule_interval_seconds",
    )
    yield Key(
        "run.max.seconds",
        section,
        Kind.NUMBER,
        "0",
        "How long a run keeps reading. 0: one bounded pass. With a value the delay is a fraction of a second "
        "(`chunk.linger.ms`) instead of a schedule interval, and each of the `tasks.max` slots permanently occupies "
        "one of Spark's cores.",
        "A run that ends can be judged.",
        unit="seconds",
        minimum=0,
        levels=ALL_LEVELS,
        field="run_max_seconds",
    )
    yield Key(
        "task.retries",
        section,
        Kind.WHOLE,
        "2",
        "How often Airflow retries a failed task within a run.",
        "The next run starts soon anyway.",
        minimum=0,
        levels=ALL_LEVELS,
        field="retries",
    )
    yield Key(
        "task.retry.delay.seconds",
        section,
        Kind.NUMBER,
        "10",
        "Delay before a retry.",
        "A broker's restart takes about that long.",
        unit="seconds",
        minimum=0,
        levels=ALL_LEVELS,
        field="retry_delay_seconds",
    )
    yield Key(
        "task.execution.timeout.seconds",
        section,
        Kind.NUMBER,
        "21600",
        "After this time a task is terminated. 0 turns it off.",
        "Long enough for a first copy; what was committed until then stays committed.",
        unit="seconds",
        minimum=0,
        levels=ALL_LEVELS,
        field="execution_timeout_seconds",
    )
    yield Key(
        "airflow.pool",
        section,
        Kind.TEXT,
        "default_pool",
        "Airflow pool of the task that copies; `{source}` and `{target}` stand for the aliases, so that "
        "`srm_{target}` is one pool per target cluster. Airflow never starts tasks in a pool that does not exist.",
        "The pool that exists in every Airflow.",
        levels=ALL_LEVELS,
        field="airflow_pool",
    )
    yield Key(
        "airflow.spark.connection",
        section,
        Kind.TEXT,
        "spark",
        "Airflow connection that says where Spark runs (`local[2]`, `spark://host:7077`).",
        "One Spark for all flows.",
        levels=ALL_LEVELS,
        field="spark_connection",
    )
    yield Key(
        "spark.min.bytes",
        section,
        Kind.WHOLE,
        "1048576",
        "A run with less than this to copy does not use Spark: the task copies by itself, with the same code. The "
        "measure is the estimated size of what the source holds beyond the committed offsets; topics that were never "
        "copied, and long runs (`run.max.seconds`), always use Spark. 0: every run does.",
        "Starting Spark costs 4 CPU-seconds and more, copying a megabyte milliseconds. If runs copy some megabytes "
        "each, 67108864 avoids most starts: copying that much costs a tenth of a CPU-second, 1.5 in the worst case.",
        unit="bytes",
        minimum=0,
        levels=ALL_LEVELS,
        field="spark_min_bytes",
    )
