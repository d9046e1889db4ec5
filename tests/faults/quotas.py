"""Client quotas of a broker (KIP-546), by client id."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from kafka.protocol.admin import AlterClientQuotasRequest

from srm_common.domain.cluster import ClusterSettings
from srm_common.kafka.client.links.link import ClusterLink
from srm_common.testing import LocalKafka


@contextmanager
def quota(kafka: LocalKafka, key: str, value: float, client_id: str = "srm") -> Iterator[None]:
    """While the block lasts, ``key`` ("producer_byte_rate", "consumer_byte_rate": bytes a second and broker;
    "request_percentage") limits the clients of that id."""
    _alter(kafka, key, value, client_id, remove=False)
    try:
        yield
    finally:
        _alter(kafka, key, value, client_id, remove=True)


def _alter(kafka: LocalKafka, key: str, value: float, client_id: str, *, remove: bool) -> None:
    entry: Any = AlterClientQuotasRequest.EntryData
    request = AlterClientQuotasRequest(
        version=1,
        entries=[
            entry(
                entity=[entry.EntityData(entity_type="client-id", entity_name=client_id)],
                ops=[entry.OpData(key=key, value=value, remove=remove)],
            )
        ],
        validate_only=False,
    )
    with ClusterLink(replace(ClusterSettings.plaintext("quota", kafka.internal_servers), client_id="tests")) as link:

        async def go() -> None:
            await link.open()
            answer = await link.send(await link.any_node(), request)
            assert [one.error_code for one in answer.entries] == [0], answer

        link.run(go)
