"""What is copied: names, record and batch shapes, sizes. The names are fixed, results are kept under them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

PARTITIONS = 4

MB = 1_000_000
GB = 1_000_000_000


@dataclass(frozen=True)
class Workload:
    """One topic shape and how much of it.

    ``record_bytes`` is key plus value. ``batch_bytes`` and ``batch_records`` limit a batch before compression, as
    librdkafka's ``batch.size`` and ``batch.num.messages`` do. ``uncompressed_bytes`` is the size of all topics
    together, before compaction. ``transforms`` are keys of the flow, below its arrow; ``ours``: keys that
    do the same, which this project has in their place. ``tls``: all clients of both brokers speak TLS.
    """

    name: str
    summary: str
    record_bytes: int
    codec: str
    batch_bytes: int
    batch_records: int
    uncompressed_bytes: int
    busy_topics: int = 1
    idle_topics: int = 0
    compacted: bool = False
    transforms: Mapping[str, str] = field(default_factory=dict)
    ours: Mapping[str, str] = field(default_factory=dict)
    tls: bool = False

    @property
    def records(self) -> int:
        """Records to write, a multiple of all partitions."""
        lanes = self.busy_topics * PARTITIONS
        return max(1, self.uncompressed_bytes // self.record_bytes // lanes) * lanes

    @property
    def distinct_keys(self) -> int:
        """Keys of each partition of a compacted topic: half as many as records, so that about 43 % of them stay."""
        return max(1, self.records // (self.busy_topics * PARTITIONS) // 2) if self.compacted else 0

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics with records."""
        if self.busy_topics == 1:
            return (f"bench-{self.name}",)
        return tuple(f"bench-{self.name}-busy-{number}" for number in range(self.busy_topics))

    @property
    def empty_topics(self) -> tuple[str, ...]:
        """Topics that are replicated too but never get a record."""
        return tuple(f"bench-{self.name}-empty-{number:03d}" for number in range(self.idle_topics))

    @property
    def topic_pattern(self) -> str:
        """One regular expression for all of its topics, as ``topics`` of a flow takes it."""
        return f"bench-{self.name}" if self.busy_topics == 1 else f"bench-{self.name}-.*"

    def scaled(self, factor: float) -> Workload:
        """The same with another amount of data."""
        return replace(self, uncompressed_bytes=int(self.uncompressed_bytes * factor))


_CONNECT = "org.apache.kafka.connect"
#: A filter that looks at each record and drops none, and a header for each. MirrorMaker 2 fails at the header
#: unless it converts headers to text.
_FILTER_AND_HEADER = {
    "transforms": "sane, origin",
    "transforms.sane.type": f"{_CONNECT}.transforms.Filter",
    "transforms.sane.predicate": "gone",
    "transforms.origin.type": f"{_CONNECT}.transforms.InsertHeader",
    "transforms.origin.header": "origin",
    "transforms.origin.value.literal": "east",
    "predicates": "gone",
    "predicates.gone.type": f"{_CONNECT}.transforms.predicates.RecordIsTombstone",
    "header.converter": f"{_CONNECT}.storage.SimpleHeaderConverter",
}
#: What they do, as a function and as a statement. MirrorMaker 2 has the transforms.
_PYTHON = "bench.filter_and_header:filter_and_header"
_SQL = (
    "SELECT array_append(headers, named_struct('key', 'origin', 'value', CAST('east' AS BINARY))) AS headers "
    "FROM records WHERE value IS NOT NULL"
)
#: The same with a condition that is always true, and that only Spark can evaluate.
_SPARK_SQL = f"{_SQL} AND length(value) >= 0"

_ALL = (
    Workload("1k-lz4", "1 KB JSON, lz4, 128 KB batches", 1024, "lz4", 131_072, 100_000, 4 * GB),
    Workload("1k-lz4-tls", "1 KB JSON, lz4, 128 KB batches, TLS", 1024, "lz4", 131_072, 100_000, 4 * GB,
             tls=True),
    Workload("1k-none", "1 KB JSON, uncompressed, 128 KB batches", 1024, "none", 131_072, 100_000, 3 * GB),
    Workload("1k-zstd", "1 KB JSON, zstd, 128 KB batches", 1024, "zstd", 131_072, 100_000, 4 * GB),
    Workload("100b-lz4", "100 B JSON, lz4, 16 KB batches", 100, "lz4", 16_384, 100_000, 1 * GB),
    Workload("100b-tiny", "100 B JSON, lz4, batches of 10 records", 100, "lz4", 16_384, 10, 200 * MB),
    Workload("1k-compacted", "1 KB JSON, lz4, compacted: holes in batches", 1024, "lz4", 131_072, 100_000, 4 * GB,
             compacted=True),
    Workload("1k-transforms", "1 KB JSON, lz4, a filter and a header", 1024, "lz4", 131_072, 100_000, 4 * GB,
             transforms=_FILTER_AND_HEADER),
    Workload("100b-transforms", "100 B JSON, lz4, a filter and a header", 100, "lz4", 16_384, 100_000, 1 * GB,
             transforms=_FILTER_AND_HEADER),
    Workload("1k-python", "1 KB JSON, lz4, a filter and a header by Python", 1024, "lz4", 131_072, 100_000, 4 * GB,
             transforms=_FILTER_AND_HEADER, ours={"transforms.python": _PYTHON}),
    Workload("100b-python", "100 B JSON, lz4, a filter and a header by Python", 100, "lz4", 16_384, 100_000, 1 * GB,
             transforms=_FILTER_AND_HEADER, ours={"transforms.python": _PYTHON}),
    Workload("1k-sql", "1 KB JSON, lz4, a filter and a header by SQL", 1024, "lz4", 131_072, 100_000, 4 * GB,
             transforms=_FILTER_AND_HEADER, ours={"transforms.sql": _SQL}),
    Workload("100b-sql", "100 B JSON, lz4, a filter and a header by SQL", 100, "lz4", 16_384, 100_000, 1 * GB,
             transforms=_FILTER_AND_HEADER, ours={"transforms.sql": _SQL}),
    Workload("1k-spark-sql", "1 KB JSON, lz4, a filter and a header by Spark", 1024, "lz4", 131_072, 100_000, 4 * GB,
             transforms=_FILTER_AND_HEADER, ours={"transforms.sql": _SPARK_SQL}),
    Workload("100b-spark-sql", "100 B JSON, lz4, a filter and a header by Spark", 100, "lz4", 16_384, 100_000, 1 * GB,
             transforms=_FILTER_AND_HEADER, ours={"transforms.sql": _SPARK_SQL}),
    Workload("idle", "5 busy topics (1 KB, lz4) among 200 empty ones", 1024, "lz4", 131_072, 100_000, 2 * GB,
             busy_topics=5, idle_topics=200),
)  # fmt: skip

WORKLOADS = {workload.name: workload for workload in _ALL}

DELAY = "delay"
"""No amount of data but a trickle: :mod:`bench.delay`."""

NAMES = (*WORKLOADS, DELAY)
"""In the order in which results show them."""

QUICK_FACTOR = 0.125
"""``--quick``: enough to see that all works, too little for a steady state."""
