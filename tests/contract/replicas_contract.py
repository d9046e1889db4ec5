"""What leaders answer while followers are away, and while clients have spent their quotas."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from srm_common.domain.topic_partition import TopicPartition as Place
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.kafka.client.protocol import codes
from srm_common.kafka.client.protocol.fetch_request import FetchFrom, fetch_request
from srm_common.kafka.client.protocol.frames import RawProduce
from tests.contract.parts import Cluster, settings, shown
from tests.contract.records_contract import Writer, batch, values

NOT_ENOUGH_REPLICAS = 19
_TIMED_OUT = 7
_VERSION, _TIMEOUT_MS = 9, 4000


class Replicated(Cluster, Protocol):
    """A cluster of three nodes."""

    def stop(self, node: int) -> None: ...

    def restart(self, node: int) -> None: ...


@dataclass
class Lagging:
    """``follow_not``: while it lasts, a follower of the leader that it is given does not follow. ``code``: what is
    answered then to a batch that the leader has stored."""

    kafka: Replicated
    follow_not: Callable[[int], AbstractContextManager[object]]
    code: int


#: While it lasts, a quota is spent by the requests of an API.
Throttled = Callable[[str], AbstractContextManager[object]]


def opened(link: ClusterLink, topic: str) -> Writer:
    """A writer to a new topic, once its leader answers."""
    link.run(lambda: link.open([topic]))
    assert shown(lambda: link.start_offsets([Place(topic, 0)]), ({Place(topic, 0): 0}, {})) == ({(topic, 0): 0}, {})
    return Writer(link, topic)


class ReplicasContract:
    def test_a_batch_for_which_there_are_too_few_replicas_is_not_stored(
        self, replicated: Replicated, name: str
    ) -> None:
        replicated.create_topic(name, 1, 3, {"min.insync.replicas": "3"})
        with ClusterLink(settings(replicated)) as link:
            writer = opened(link, name)
            put = _putting(writer)
            assert put(0, b"a") == (codes.NONE, 0)
            leader = link.leader(name, 0)
            away = next(node for node in replicated.nodes if node != leader)
            replicated.stop(away)
            assert shown(lambda: put(1, b"b")[0], NOT_ENOUGH_REPLICAS) == NOT_ENOUGH_REPLICAS
            replicated.restart(away)
            assert shown(lambda: put(1, b"b"), (codes.NONE, 1)) == (codes.NONE, 1)
        assert values(replicated, name) == [b"a", b"b"]

    def test_a_batch_that_is_refused_after_it_was_stored_is_there_when_it_is_sent_again(
        self, lagging: Lagging, name: str
    ) -> None:
        lagging.kafka.create_topic(name, 1, 3, {"min.insync.replicas": "3"})
        with ClusterLink(settings(lagging.kafka), request_timeout_ms=180_000) as link:
            put = _putting(opened(link, name))
            assert put(0, b"a") == (codes.NONE, 0)
            # Time-out is an answer of its own; for the other one the leader must have given the follower up before.
            timeout_ms = _TIMEOUT_MS if lagging.code == _TIMED_OUT else 120_000
            refused = 1

            def refuse() -> int:
                """One that the follower still acknowledges, as on a busy machine, is none; another one follows then."""
                nonlocal refused
                with lagging.follow_not(link.leader(name, 0) or 0):
                    code, _ = put(refused, b"%d" % refused, timeout_ms)
                refused += code == codes.NONE
                return code

            assert shown(refuse, lagging.code) == lagging.code

            def again(sequence: int) -> tuple[int, int]:
                return shown(lambda: put(sequence, b"%d" % sequence), (codes.NONE, sequence))

            for sequence in (refused, refused + 1):
                assert again(sequence) == (codes.NONE, sequence)
        assert values(lagging.kafka, name) == [b"a", *(b"%d" % sequence for sequence in range(1, refused + 2))]


class QuotasContract:
    def test_a_topic_with_fewer_replicas_than_are_to_be_in_sync_wants_all_of_them(
        self, kafka: Cluster, name: str
    ) -> None:
        kafka.create_topic(name, 1, 1, {"min.insync.replicas": "2"})
        with ClusterLink(settings(kafka)) as link:
            assert _putting(opened(link, name))(0, b"a") == (codes.NONE, 0)

    def test_what_is_produced_beyond_a_quota_is_stored(self, kafka: Cluster, throttled: Throttled, name: str) -> None:
        kafka.create_topic(name)
        with ClusterLink(settings(kafka)) as link:
            writer = opened(link, name)
            stored: list[tuple[int, int]] = []

            def produce() -> bool:
                answer = link.run(lambda: _produce(writer, batch([b"x" * 500_000])))
                stored.extend((partition.error_code, partition.base_offset) for partition in answer.partitions)
                return bool(answer.throttle_time_ms)

            # Brokers take the time of the rate into account, which on a busy machine may be too low at first.
            with throttled("Produce"):
                assert shown(produce, True)
            assert stored == [(codes.NONE, number) for number in range(len(stored))]
            assert writer.run(lambda: writer.put(batch([b"y"]))).base_offset == len(stored)

    def test_a_fetch_beyond_a_quota_brings_nothing(self, kafka: Cluster, throttled: Throttled, name: str) -> None:
        kafka.create_topic(name)
        with ClusterLink(settings(kafka)) as link:
            writer = opened(link, name)
            assert writer.run(lambda: writer.put(batch([b"x" * 500_000]))).error_code == codes.NONE

            def fetch() -> tuple[bool, int]:
                """Whether the answer names a time to wait, and how many topics are in it."""
                request = fetch_request(
                    [FetchFrom(name, 0, 0, -1, -1)],
                    partition_bytes=1 << 20,
                    max_bytes=1 << 20,
                    max_wait_ms=100,
                    committed=True,
                )
                answer: Any = link.run(lambda: link.send(link.leader(name, 0) or 0, request))
                return answer.throttle_time_ms > 0, len(answer.responses)

            with throttled("Fetch"):
                assert shown(fetch, (True, 0)) == (True, 0)
            assert shown(fetch, (False, 1)) == (False, 1)


async def _produce(writer: Writer, data: bytes, timeout_ms: int = _TIMEOUT_MS) -> Any:
    leader = writer.link.leader(writer.topic, 0)
    return await writer.link.send(leader, RawProduce(_VERSION, None, timeout_ms, {writer.topic: [(0, [data])]}))


class _Put(Protocol):
    """Puts one record of an idempotent producer under a sequence; returns code and offset of the answer."""

    def __call__(self, sequence: int, value: bytes, timeout_ms: int = _TIMEOUT_MS) -> tuple[int, int]: ...


def _putting(writer: Writer) -> _Put:
    who = writer.run(writer.init)

    def put(sequence: int, value: bytes, timeout_ms: int = _TIMEOUT_MS) -> tuple[int, int]:
        (part,) = writer.run(lambda: _produce(writer, batch([value], who, sequence), timeout_ms)).partitions
        return part.error_code, part.base_offset

    return put
