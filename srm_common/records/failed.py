"""Records that a transform cannot handle, in a flow that tolerates them: they are logged, and encoded for the dead
letter topic, as Connect's ``LogReporter`` and ``DeadLetterQueueReporter`` do (KIP-298).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.transforms.faults import CONTEXT_HEADERS, ErrorHandling
from srm_common.errors import RecordTooLarge, TransformFailed
from srm_common.records.transform import RecordFault, Transform
from srm_common.wire.batches.batch import HEADER_SIZE, Packed
from srm_common.wire.reencoding.columns import encode, encoded_header, more_headers

_LOG = logging.getLogger(__name__)


class FailedRecords:
    """The records of one partition that ``transform`` cannot handle.

    Args:
        flow: its name, for the log and for the header ``connector.name``.
        slot: for the header ``task.id``.
        upstream: the partition at the source.
    """

    def __init__(
        self, handling: ErrorHandling, flow: str, slot: int, upstream: TopicPartition, transform: Transform
    ) -> None:
        self._handling = handling
        self._flow = flow
        self._slot = slot
        self._upstream = upstream
        self._transform = transform

    @property
    def tolerated(self) -> bool:
        """Whether the partition goes on without them."""
        return self._handling.tolerate

    def log(self, faults: Sequence[RecordFault]) -> None:
        """Log a line for each, if the flow asks for it."""
        if self._handling.log:
            topic, partition = self._upstream
            for fault in faults:
                _LOG.error("%s: the record of partition %s-%d at %s; left out", self._flow, topic, partition, fault)

    def dead_letters(
        self, records: pa.RecordBatch, faults: Sequence[RecordFault], codec: int, body_bytes: int, level: int | None
    ) -> Iterator[Packed]:
        """Batches for the dead letter topic with those of ``records`` that failed, as they were at the source.

        Raises:
            RecordTooLarge: a single record is larger than that topic allows.
        """
        topic = self._handling.dead_letters
        if topic is None or not faults:
            return
        rows = np.searchsorted(records.column("offset").to_numpy(), [fault.offset for fault in faults])
        failed = records.take(pa.array(rows))
        if topic.context_headers:
            failed = self._with_context(failed, faults)
        limit = topic.max_message_bytes
        try:
            yield from encode(failed, codec, min(body_bytes, limit - HEADER_SIZE), limit, level)
        except RecordTooLarge as error:
            raise RecordTooLarge(f"a failed record does not fit into dead letter topic {topic.name}: {error}") from None

    def _with_context(self, failed: pa.RecordBatch, faults: Sequence[RecordFault]) -> pa.RecordBatch:
        texts = [self._context(fault) for fault in faults]
        more = [b"".join(encoded_header(CONTEXT_HEADERS + name, text.encode()) for name, text in one) for one in texts]
        return more_headers(failed, len(texts[0]), pa.array(more, pa.binary()))

    def _context(self, fault: RecordFault) -> tuple[tuple[str, str], ...]:
        topic, partition = self._upstream
        return (
            ("topic", topic),
            ("partition", str(partition)),
            ("offset", str(fault.offset)),
            ("connector.name", self._flow),
            ("task.id", str(self._slot)),
            ("stage", "TRANSFORMATION"),
            ("class.name", self._transform.class_of(fault.step)),
            ("exception.class.name", f"{TransformFailed.__module__}.{TransformFailed.__qualname__}"),
            ("exception.message", f"{fault.key}: {fault.reason}"),
        )
