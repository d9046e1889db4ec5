"""The worlds. A new one is a function that builds it; every scenario is then told in it.

What stands in ``soak`` is told by ``make soak`` only; docs/reliability.md has the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from srm_common.testing import LocalKafka
from srm_common.testing.artifacts import DEFAULT_KAFKA_VERSION
from srm_common.testing.logins import client_properties
from srm_common.testing.tiered_storage import TIERED_TOPIC, local_start, wait_until_remote
from tests.faults.scenario import KEEPS_ITS_MARKERS
from tests.kafka.acl_commands import grant
from tests.kafka.authority import Authority
from tests.kafka.records import eventually
from tests.silent_peers import black_hole
from tests.worlds.slow_network import SlowNetwork
from tests.worlds.world import Entrance, Side, Stage, World

EQUALITY, KILLS, FAILOVER = "equality", "kills", "failover"
STORIES = (EQUALITY, KILLS, FAILOVER)
OLDEST, NEWEST = "2.8.2", DEFAULT_KAFKA_VERSION
WORLDS: dict[str, Entrance] = {}

_PASSWORD = "open-sesame-8"
#: Less than the large records of the awkward source.
_LARGE = 4_000_000


def world(*, soak: tuple[str, ...] = ()) -> Callable[[Callable[[Stage], World]], Callable[[Stage], World]]:
    """Puts a function into :data:`WORLDS`, under its own name."""

    def enter(build: Callable[[Stage], World]) -> Callable[[Stage], World]:
        name = build.__name__.replace("_", "-")
        WORLDS[name] = Entrance(name, build, frozenset(soak))
        return build

    return enter


@world()
def kafkas_defaults(stage: Stage) -> World:
    """Kafka's own partitions, delays and sessions, where tests elsewhere are quicker."""
    settings = {
        "offsets.topic.num.partitions": "50",
        "transaction.state.log.num.partitions": "50",
        "group.initial.rebalance.delay.ms": "3000",
        "broker.session.timeout.ms": "9000",
        "broker.heartbeat.interval.ms": "2000",
    }
    source, target = stage.pair(settings=settings, target_version=NEWEST)
    return World(Side(source), Side(target))


@world(soak=(KILLS, FAILOVER))
def racks_and_follower_fetching(stage: Stage) -> World:
    """Three brokers a side, each in a rack; the flow is in the rack of one of them, and reads there."""
    source, target = stage.pair(nodes=3, racks=("r1", "r2", "r3"))
    near = Side(source, {"client.rack": "r2"})
    return World(near, Side(target))


@world(soak=(KILLS, FAILOVER))
def tiered_storage_with_a_quota(stage: Stage) -> World:
    """Closed segments are in the remote store only, which gives 2 MB a second."""
    quota = {"remote.log.manager.fetch.max.bytes.per.second": "2000000"}
    source = stage.kafka("source", tiered=True, settings=quota)
    target = stage.kafka("target", version=KEEPS_ITS_MARKERS)

    def ready(topic: str) -> None:
        for partition in source.admin().list_topics(topic, timeout=60).topics[topic].partitions:
            # A partition without records may have no folder yet.
            logs = source.directory.glob(f"node-*/data/{topic}-{partition}/*.log")
            closed = max((int(log.stem) for log in logs), default=0)
            wait_until_remote(source, topic, closed, partition)
            assert local_start(source, topic, partition) >= closed

    return World(Side(source), Side(target), topics=TIERED_TOPIC, ready=ready)


@world(soak=(EQUALITY, FAILOVER))
def tls_with_scram(stage: Stage) -> World:
    """On both sides, with certificates of a private authority."""
    authority = Authority(stage.folder, "authority")
    pem = authority.vouch_for("127.0.0.1")
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    settings = {
        "listener.name.client.ssl.keystore.type": "PEM",
        "listener.name.client.ssl.keystore.location": str(pem),
        "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.client.scram-sha-512.sasl.jaas.config": f"{module} required;",
    }
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{module} required username="copier" password="{_PASSWORD}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.pem),
    }
    source, target = stage.pair(client_protocol="SASL_SSL", settings=settings)
    for kafka in (source, target):
        _let_in(kafka, "copier")
    return World(Side(source, properties), Side(target, properties))


def _let_in(kafka: LocalKafka, user: str) -> None:
    how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    made = UserScramCredentialUpsertion(user, how, _PASSWORD.encode())
    kafka.admin().alter_user_scram_credentials([made])[user].result(60)

    def known() -> bool:
        credentials: Any = kafka.admin().describe_user_scram_credentials()
        return user in credentials.result(60)

    eventually(known, 300, f"{kafka.name} does not know {user}")


@world(soak=(KILLS, FAILOVER))
def mutual_tls(stage: Stage) -> World:
    """Both sides ask their clients for a certificate."""
    authority = Authority(stage.folder, "authority")
    settings = {
        "listener.name.client.ssl.keystore.type": "PEM",
        "listener.name.client.ssl.keystore.location": str(authority.vouch_for("127.0.0.1")),
        "listener.name.client.ssl.truststore.type": "PEM",
        "listener.name.client.ssl.truststore.location": str(authority.pem),
        "listener.name.client.ssl.client.auth": "required",
    }
    properties = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.pem),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.vouch_for("copier")),
    }
    source, target = stage.pair(client_protocol="SSL", settings=settings)
    return World(Side(source, properties), Side(target, properties))


@world(soak=(KILLS, FAILOVER))
def slow_source(stage: Stage) -> World:
    """The source is 100 ms and 1 MB a second away."""
    network, source = _far_away(stage, "source", NEWEST)
    target = stage.kafka("target", version=KEEPS_ITS_MARKERS)
    return World(Side(source), Side(target), records_a_second=300, proved=lambda: network.carried[1] > _LARGE)


@world(soak=(EQUALITY, FAILOVER))
def slow_target(stage: Stage) -> World:
    """The target is 100 ms and 1 MB a second away."""
    source = stage.kafka("source")
    network, target = _far_away(stage, "target", KEEPS_ITS_MARKERS)
    return World(Side(source), Side(target), records_a_second=300, proved=lambda: network.carried[0] > _LARGE)


def _far_away(stage: Stage, name: str, version: str) -> tuple[SlowNetwork, LocalKafka]:
    network: SlowNetwork = stage.enter(SlowNetwork(0.1, 1e6))
    kafka = LocalKafka(name=name, version=version, settings={"advertised.listeners": f"CLIENT://{network.address}"})
    network.before(kafka.bootstrap_servers)
    return network, stage.start(kafka)


@world(soak=(FAILOVER,))
def silent_bootstrap_hosts(stage: Stage) -> World:
    """The first server of each side's list is gone, without a word."""
    gone: str = stage.enter(black_hole())
    source, target = (Side(kafka, {"bootstrap.servers": f"{gone},{kafka.bootstrap_servers}"}) for kafka in stage.pair())
    return World(source, target)


@world(soak=(KILLS,))
def source_to_read_only(stage: Stage) -> World:
    """The source grants what reading needs, and refuses the rest."""
    source = stage.kafka("source", logins={"copier": _PASSWORD})
    target = stage.kafka("target", version=KEEPS_ITS_MARKERS)
    for what in (
        "--operation Read --operation Describe --operation DescribeConfigs --topic '*'",
        "--operation Describe --group '*'",
    ):
        grant(source, f"kafka-acls.sh --bootstrap-server a --add --allow-principal User:copier {what}")
    settings = {
        "offset_syncs_topic_location": "target",
        "heartbeats_topic_location": "target",
        "sync_topic_acls": False,
    }
    return World(Side(source, client_properties("copier", _PASSWORD)), Side(target), settings, writable_source=False)


@world(soak=STORIES)
def oldest_to_newest(stage: Stage) -> World:
    """From the oldest Kafka that is tested to the newest."""
    return World(Side(stage.kafka("source", version=OLDEST)), Side(stage.kafka("target", version=NEWEST)))


@world(soak=(EQUALITY, KILLS))
def newest_to_oldest(stage: Stage) -> World:
    """From the newest Kafka to the oldest that is tested."""
    return World(Side(stage.kafka("source", version=NEWEST)), Side(stage.kafka("target", version=OLDEST)))


@world(soak=STORIES)
def thousands_of_partitions(stage: Stage) -> World:
    """Each flow copies a topic of 3000 partitions beside its own, most of them idle."""
    source, target = stage.pair(java_options=("-Xmx1g",))
    source.create_topic("wide", 3000)
    return World(Side(source), Side(target), beside=("wide",), settings={"tasks_max": 2})
