"""Between brokers of different age; the run is killed on the way, since that is where versions differ most."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.protocol.broker_versions import ApiKey
from srm_common.kafka.transactions.producer import Producer
from srm_common.testing import LocalKafka
from srm_common.testing.artifacts import DEFAULT_KAFKA_VERSION
from tests.faults.scenario import Scenario, take_over

pytestmark = [pytest.mark.faults, pytest.mark.kafka]

NEWEST = "4.4.0"
#: All other tests are against the default, which is the newest whose MirrorMaker 2 is published, too.
VERSIONS = tuple(dict.fromkeys(("2.8.2", "3.3.2", "3.9.1", "4.1.1", DEFAULT_KAFKA_VERSION, NEWEST)))
QUICK_PAIRS = {("2.8.2", NEWEST), (NEWEST, "3.9.1"), ("4.1.1", "4.1.1"), (NEWEST, "2.8.2")}
PAIRS = [
    pytest.param(source, target, id=f"{source}-to-{target}", marks=[] if quick else [pytest.mark.soak])
    for source in VERSIONS
    for target in VERSIONS
    for quick in [(source, target) in QUICK_PAIRS]
]
#: ``transaction.version`` came with 4.0; an older broker's transactions are of version 0.
TRANSACTION_VERSION = {"2.8.2": 0, "3.3.2": 0, "3.9.1": 0, "4.1.1": 2, DEFAULT_KAFKA_VERSION: 2, NEWEST: 2}


@pytest.fixture(scope="module")
def cluster_of() -> Iterator[Callable[[str], LocalKafka]]:
    """A cluster of each version, for all pairs that it is part of."""
    with ExitStack() as stack:
        yield cache(lambda version: stack.enter_context(LocalKafka(version=version, name=f"kafka-{version}")))


@pytest.mark.parametrize(("source_version", "target_version"), PAIRS)
def test_exactly_once_between(
    source_version: str,
    target_version: str,
    cluster_of: Callable[[str], LocalKafka],
    scenario: Callable[..., Scenario],
) -> None:
    with ExitStack() as stack:
        target = cluster_of(target_version)
        if source_version == target_version:
            source = stack.enter_context(LocalKafka(version=source_version, name="source"))
        else:
            source = cluster_of(source_version)
        assert _transaction_version(target) == TRANSACTION_VERSION[target_version]
        # Clusters remember which cluster an alias means.
        aliases = (f"from-{_plain(source_version)}", f"to-{_plain(target_version)}")
        if source_version != target_version:
            aliases = (_plain(source_version), _plain(target_version))
        take_over(scenario(source, target, aliases=aliases), lambda _, run: run.kill_driver())


def _plain(version: str) -> str:
    return f"kafka{version.replace('.', '')}"


def _transaction_version(kafka: LocalKafka) -> int:
    """The level, and that Produce is sent as every broker of that level understands it."""
    with ClusterLink(ClusterSettings.plaintext("target", kafka.bootstrap_servers)) as link:

        async def ask() -> int:
            await link.open()
            node = await link.any_node()
            level = await link.finalized_feature("transaction.version")
            producer = Producer(link, None, transactions_v2=level >= 2, transaction_timeout_ms=1000, retry_seconds=60)
            assert link.takes(node, ApiKey.PRODUCE, producer.produce_version)
            return level

        return link.run(ask)
