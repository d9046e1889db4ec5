"""What a slot's transforms may wait for."""

from __future__ import annotations

import re
import socket
from contextlib import ExitStack

import pytest

from srm_common.domain.cluster import ClusterSettings, RegistrySettings
from srm_common.domain.runs.copying import CopyJob, CopyRange
from srm_common.domain.transforms.chain import parse_chain
from srm_common.errors import TransformFailed
from srm_common.replication.slots.range_transforms import range_transforms
from tests.unit.wire.batches import Record, source_batch

MASK = {
    "transforms": "mask",
    "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
    "transforms.mask.fields": "card",
    "value.format": "avro",
}


def test_registries_that_are_silent_take_a_part_of_the_transaction_whatever_their_addresses() -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        urls = tuple(f"http://127.0.0.1:{one.getsockname()[1]}" for one in silent)
        source = ClusterSettings("a", "127.0.0.1:1", {}, {}, schema_registry=RegistrySettings(urls))
        target = ClusterSettings("b", "127.0.0.1:1", {}, {}, schema_registry=RegistrySettings(urls[:1]))
        job = CopyJob(
            "a->b", "a", source, target, "o", 1, "s", 1, transforms=parse_chain(MASK), transaction_timeout_ms=900
        )
        transformed = range_transforms(job, 0)(CopyRange("orders", "a.orders", 0, 0, 1))
        assert transformed is not None
        batch = source_batch([Record(0, 0, None, b"\0\0\0\0\1\2")])
        with pytest.raises(TransformFailed) as failed:
            list(transformed([batch], 0, 1, 1 << 20, None, lambda dropped, skipped, letters: None))
    assert re.findall(r"no answer within (\S+) s", str(failed.value)) == ["0.1"] * 3
