"""Translations of every position of a topic, and whether each is exact."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.offsets.translation import Evidence, Translated, Translation
from srm_common.kafka.state.state_reader import StateReader
from srm_common.usecases.offsets.exact_translation import ExactTranslation
from tests.contract.parts import Cluster
from tests.kafka.engine import assert_same
from tests.kafka.flows import Seen
from tests.kafka.records import Placed, read_all

Logs = Mapping[int, Sequence[Placed]]


def records(count: int, size: int = 20, keys: int = 0, start: int = 0) -> list[Seen]:
    """``keys``: so many different ones."""
    now = int(time.time() * 1000) - 100_000
    dice = random.Random(start)
    return [
        Seen(b"k%d" % (dice.randrange(keys) if keys else n), b"%d:" % n + b"v" * size, (), now + n)
        for n in range(start, start + count)
    ]


def wait_for_markers(cluster: ClusterSettings, *topics: str) -> None:
    """Those of transactions may come later than the answers to their commits."""
    with StateReader(cluster) as reader:
        for topic in topics:
            reader.stable_ends(topic, range(reader.partitions(topic)), within_seconds=120)


def logs(kafka: Cluster, topic: str) -> dict[int, list[Placed]]:
    """All records of a topic, once no transaction is open."""
    wait_for_markers(ClusterSettings.plaintext("any", kafka.internal_servers), topic)
    return read_all(kafka, topic)


def translated(flow: FlowSettings, topic: str, upstream: Logs) -> dict[tuple[int, int], Translation]:
    """Every position of a topic, by partition and offset: from its start to behind its end."""
    wanted = [
        (topic, partition, position)
        for partition, log in upstream.items()
        for position in range(log[-1].offset + 2 if log else 0)
    ]
    wait_for_markers(flow.target, names.segments_topic(flow.name.source), names.offsets_topic(flow.name.source))
    with ExactTranslation(flow) as exact:
        answers = exact.translate(wanted)
        assert not exact.away
    return {(partition, position): answer for (_, partition, position), answer in answers.items()}


def check_exact(answers: Mapping[tuple[int, int], Translation], upstream: Logs, downstream: Logs) -> Counter[Evidence]:
    """What the translations are told by; each is exact, and none goes backwards."""
    by: Counter[Evidence] = Counter()
    for partition, log in upstream.items():
        assert_same(log, downstream[partition], f"partition {partition}")
        last = 0
        for position in range(log[-1].offset + 2 if log else 0):
            answer = answers[partition, position]
            assert isinstance(answer, Translated), (partition, position, answer)
            unread = sum(placed.offset >= position for placed in log)
            would_read = sum(placed.offset >= answer.offset for placed in downstream[partition])
            assert would_read == unread, (partition, position, answer)
            assert answer.exact, (partition, position, answer)
            assert answer.offset >= last, (partition, position, answer)
            last = answer.offset
            by[answer.by] += 1
    return by


def without_source(flow: FlowSettings) -> FlowSettings:
    """The flow while nobody answers at its source."""
    return replace(flow, source=ClusterSettings.plaintext(flow.source.alias, "127.0.0.1:1"), admin_timeout_ms=3000)
