"""The topologies of docs/examples, each from its very file.

Clusters come by the environment variables that the files name. Only replication factors are set here: each cluster is a
single node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.flow.start_position import OF_EDITS, StartPosition
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord, RunState
from srm_common.errors import UnreachableCluster
from srm_common.settings_files.configuration import Configuration, load_configuration
from srm_common.testing import FakeCluster, ReservedPort
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.offsets.edit_source_offsets import Request, edit_source_offsets
from srm_common.usecases.runs.replicate import replicate
from srm_common.usecases.topics.refresh_topics import refresh_topics
from tests.kafka.flows import read, write
from tests.slot_worker import here

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"


@pytest.fixture
def third() -> Iterator[FakeCluster]:
    with FakeCluster(name="third") as kafka:
        yield kafka


@pytest.fixture
def fourth() -> Iterator[FakeCluster]:
    with FakeCluster(name="fourth") as kafka:
        yield kafka


def values(start: int, end: int, prefix: str = "") -> list[bytes | None]:
    return [f"{prefix}{number}".encode() for number in range(start, end)]


def on_one_broker(flow: FlowSettings) -> FlowSettings:
    factors = {name: 1 for name in FlowSettings.__dataclass_fields__ if name.endswith("replication_factor")}
    return replace(flow, **factors)  # type: ignore[arg-type]


def run(clusters: FlowClusters) -> RunRecord:
    """What the DAG of a flow does, with clients that its tasks share, and all rounds too: each takes a twentieth of a
    second to connect."""
    failed = [result for result in refresh_topics(clusters, at_once=True).results if result.error is not None]
    assert not failed
    record = replicate(clusters, RunOptions("r"), here)
    assert record.state is RunState.DONE, record.failed_partitions
    return record


class Example:
    """One file of docs/examples, and a cluster for each of its aliases."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch, **clusters: FakeCluster | str) -> None:
        self.name = name
        self.clusters = clusters
        for alias, cluster in clusters.items():
            address = cluster if isinstance(cluster, str) else cluster.bootstrap_servers
            monkeypatch.setenv(f"{alias.upper()}_KAFKA", address)

    def configuration(self) -> Configuration:
        configuration = load_configuration(EXAMPLES / f"{self.name}.properties")
        assert not configuration.faults
        return configuration

    def flow(self, name: str) -> FlowSettings:
        return on_one_broker(self.configuration().flow(name))

    def run(self, name: str) -> RunRecord:
        """What the DAG of a flow does."""
        with FlowClusters(self.flow(name)) as clusters:
            return run(clusters)

    def settle(self, *flows: str) -> int:
        """Run all flows, or those named, until there is nothing new; the number of records copied."""
        names: list[str | FlowName] = list(flows) or [flow.name for flow in self.configuration().enabled_flows]
        copied = 0
        with ExitStack() as stack:
            opened = [stack.enter_context(FlowClusters(self.flow(str(name)))) for name in names]
            for _ in range(len(names) + 1):
                records = sum(run(clusters).records for clusters in opened)
                copied += records
                if not records:
                    return copied
        raise AssertionError(f"{self.name} does not come to rest")

    def write(self, alias: str, topic: str, records: Sequence[bytes | None]) -> None:
        cluster = self.clusters[alias]
        assert isinstance(cluster, FakeCluster)
        if topic not in self.topics(alias):
            cluster.create_topic(topic, 1)
        write(cluster, topic, records)

    def values(self, alias: str, topic: str) -> list[bytes | None]:
        cluster = self.clusters[alias]
        assert isinstance(cluster, FakeCluster)
        return [seen.value for seen in read(cluster, topic)]

    def topics(self, alias: str) -> set[str]:
        cluster = self.clusters[alias]
        assert isinstance(cluster, FakeCluster)
        return set(cluster.topics())

    def named(self, alias: str, word: str) -> set[str]:
        """The topics of a cluster that have ``word`` in their names, without state topics."""
        return {topic for topic in self.topics(alias) if word in topic and not topic.endswith(".internal")}


def test_active_standby(source_kafka: FakeCluster, target_kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    example = Example("active-standby", monkeypatch, primary=source_kafka, standby=target_kafka)
    example.write("primary", "payments", values(0, 50))
    assert example.settle() == 50
    assert example.values("standby", "primary.payments") == values(0, 50)
    # The bad day: producers write at the standby, under the same name.
    example.write("standby", "payments", values(50, 60))
    assert example.settle() == 10
    assert example.values("primary", "standby.payments") == values(50, 60)
    assert example.named("primary", "payments") == {"payments", "standby.payments"}
    assert example.named("standby", "payments") == {"payments", "primary.payments"}


def test_active_active(source_kafka: FakeCluster, target_kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    example = Example("active-active", monkeypatch, london=source_kafka, paris=target_kafka)
    example.write("london", "orders-new", values(0, 20, "london"))
    example.write("paris", "orders-new", values(0, 30, "paris"))
    assert example.settle() == 50
    for site, other in (("london", "paris"), ("paris", "london")):
        assert example.named(site, "orders-new") == {"orders-new", f"{other}.orders-new"}
        assert example.values(site, f"{other}.orders-new") == example.values(other, "orders-new")


def test_ring(
    source_kafka: FakeCluster, target_kafka: FakeCluster, third: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    sites = {"oslo": source_kafka, "rome": target_kafka, "wien": third}
    example = Example("ring", monkeypatch, **sites)
    for site in sites:
        example.write(site, "orders", values(0, 10, site))
    assert example.settle() == 60
    for site in sites:
        others = {f"{other}.orders": other for other in sites if other != site}
        assert {one for one in example.named(site, "orders") if one.endswith(".orders")} == others.keys()
        for copy, other in others.items():
            assert example.values(site, copy) == values(0, 10, other)
    # Without one site the other two go on.
    port = ReservedPort()
    try:
        lessened = Example("ring", monkeypatch, oslo=source_kafka, rome=target_kafka, wien=port.address)
        lessened.write("oslo", "orders", values(10, 15, "oslo"))
        assert lessened.settle("oslo->rome", "rome->oslo") == 5
    finally:
        port.release()
    assert example.values("rome", "oslo.orders") == values(0, 15, "oslo")


def test_fan_in(
    source_kafka: FakeCluster, target_kafka: FakeCluster, third: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = Example("fan-in", monkeypatch, north=source_kafka, south=target_kafka, hq=third)
    for plant in ("north", "south"):
        example.write(plant, "readings", values(0, 20, plant))
    assert example.settle() == 40
    assert example.named("hq", "readings") == {"north.readings", "south.readings"}
    for plant in ("north", "south"):
        assert example.values("hq", f"{plant}.readings") == values(0, 20, plant)


def test_fan_in_under_unchanged_names(
    source_kafka: FakeCluster, target_kafka: FakeCluster, third: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = Example("fan-in-identity", monkeypatch, east=source_kafka, west=target_kafka, center=third)
    for plant in ("east", "west"):
        example.write(plant, "meters", values(0, 20, plant))
    assert example.settle() == 40
    for plant in ("east", "west"):
        example.write(plant, "meters", values(20, 25, plant))
    assert example.settle() == 10
    merged = example.values("center", "meters")
    assert len(merged) == 50
    for plant in ("east", "west"):
        assert [one for one in merged if one and one.startswith(plant.encode())] == values(0, 25, plant)


def test_fan_out_with_one_dead_target(
    source_kafka: FakeCluster, target_kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = ReservedPort()
    try:
        example = Example("fan-out", monkeypatch, studio=source_kafka, tokyo=target_kafka, sydney=port.address)
        example.write("studio", "releases", values(0, 20))
        with pytest.raises(UnreachableCluster, match="sydney"):
            refresh_topics(replace(example.flow("studio->sydney"), admin_timeout_ms=2000))
        assert example.settle("studio->tokyo") == 20
        assert example.values("tokyo", "studio.releases") == values(0, 20)
    finally:
        port.release()


def test_chain_of_three_hops(
    source_kafka: FakeCluster,
    target_kafka: FakeCluster,
    third: FakeCluster,
    fourth: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    example = Example("chain", monkeypatch, ship=source_kafka, shore=target_kafka, office=third, archive=fourth)
    example.write("ship", "position", values(0, 20))
    assert example.settle() == 60
    example.write("ship", "position", values(20, 25))
    # Each hop brings what the one before brought, in the order of the file.
    assert [example.run(name).records for name in ("ship->shore", "shore->office", "office->archive")] == [5, 5, 5]
    assert example.values("archive", "office.shore.ship.position") == values(0, 25)
    policy = example.flow("office->archive").policy
    assert policy.original_topic("office.shore.ship.position") == "position"


def test_migration_and_turning_the_direction_round_twice(
    source_kafka: FakeCluster, target_kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = {"onprem": source_kafka, "cloud": target_kafka}
    example = Example("migration", monkeypatch, **clusters)
    example.write("onprem", "invoices", values(0, 40))
    assert example.settle() == 40
    example.write("onprem", "invoices", values(40, 50))
    assert example.settle() == 10
    # Producers move, and one file takes the place of the other.
    turned = Example("migration-turned", monkeypatch, **clusters)
    turned.write("cloud", "invoices", values(50, 70))
    assert turned.settle() == 20
    turned.write("cloud", "invoices", values(70, 75))
    assert turned.settle() == 5
    for site in clusters:
        assert turned.values(site, "invoices") == values(0, 75)
    # And back again: what came from the cloud is refused until the flow is moved on behind it.
    example.write("onprem", "invoices", values(75, 80))
    refresh_topics(example.flow("onprem->cloud"), at_once=True)
    refused = replicate(example.flow("onprem->cloud"), RunOptions("r"), here)
    assert "those records would be copied back" in str(refused.failed_partitions[0].error)
    opposite = Request("reset", topics=("invoices",), to=StartPosition.parse("opposite", OF_EDITS))
    (edit,) = edit_source_offsets(example.flow("onprem->cloud"), opposite)
    assert edit.changes
    assert example.settle() == 5
    for site in clusters:
        assert example.values(site, "invoices") == values(0, 80)


def test_copy_only(source_kafka: FakeCluster, target_kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    example = Example("copy-only", monkeypatch, plant=source_kafka, lake=target_kafka)
    before = example.topics("plant")
    example.write("plant", "telemetry", values(0, 20))
    assert example.settle() == 20
    assert example.values("lake", "telemetry") == values(0, 20)
    assert example.topics("plant") - before == {"telemetry"}
    flow = example.flow("plant->lake")
    assert (flow.emit_checkpoints, flow.emit_heartbeats, flow.emit_offset_syncs) == (False, False, False)


def test_aggregation(
    source_kafka: FakeCluster, target_kafka: FakeCluster, third: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = Example("aggregation", monkeypatch, dublin=source_kafka, madrid=target_kafka, stats=third)
    for site in ("dublin", "madrid"):
        example.write(site, "clicks", values(0, 20, site))
    example.write("stats", "results", values(0, 3, "result"))
    assert example.settle() == 46
    for site in ("dublin", "madrid"):
        assert example.values("stats", f"{site}.clicks") == values(0, 20, site)
        assert example.values(site, "stats.results") == values(0, 3, "result")
        assert example.named(site, "clicks") == {"clicks"}


def test_geo_filter(source_kafka: FakeCluster, target_kafka: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    example = Example("geo-filter", monkeypatch, eu=source_kafka, us=target_kafka)
    for topic in ("public.prices", "public.users.personal", "internal.salaries"):
        example.write("eu", topic, values(0, 5, topic))
    for topic in ("sales.toys", "sales.defense.orders"):
        example.write("us", topic, values(0, 5, topic))
    assert example.settle() == 10
    arrived = {one for word in ("prices", "users", "salaries") for one in example.named("us", word)}
    assert arrived == {"eu.public.prices"}
    arrived = {one for word in ("toys", "defense") for one in example.named("eu", word)}
    assert arrived == {"us.sales.toys"}


def test_every_example_is_here() -> None:
    tested = Path(__file__).read_text()
    for file in EXAMPLES.glob("*.properties"):
        if file.name != "srm.properties":
            assert f'"{file.stem}"' in tested
            assert file.name in (EXAMPLES / "README.md").read_text()
