"""Headers that say where a record came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from srm_common.domain.flow.settings import PROVENANCE_HEADERS, Provenance
from srm_common.domain.topic_partition import TopicPartition
from srm_common.wire.reencoding.columns import encoded_header, more_headers
from srm_common.wire.varints import write_varint

#: The encoded length of an offset as text, by the number of digits, of which there are at most 19.
_LENGTHS = pa.array([write_varint(length) for length in range(20)], pa.binary())


class ProvenanceHeaders:
    """The headers for one partition: numbers as decimal text, all text in UTF-8.

    Args:
        wanted: the headers, in the order in which they are appended to those of a record.
        flow: its name.
        cluster: the source's alias.
        upstream: the partition at the source.
    """

    def __init__(self, wanted: Sequence[Provenance], flow: str, cluster: str, upstream: TopicPartition) -> None:
        texts = {"flow": flow, "cluster": cluster, "topic": upstream[0], "partition": str(upstream[1])}
        self._count = len(wanted)
        self._same = b"".join(
            encoded_header(PROVENANCE_HEADERS[one], texts[one].encode()) for one in wanted if one != "offset"
        )
        name = PROVENANCE_HEADERS["offset"].encode()
        self._offset = write_varint(len(name)) + name if "offset" in wanted else b""

    def added(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records with these headers appended."""
        parts: list[Any] = [pa.scalar(self._same, pa.binary())]
        if self._offset:
            texts = records.column("offset").cast(pa.string()).cast(pa.binary())
            parts += [pa.scalar(self._offset, pa.binary()), _LENGTHS.take(pc.binary_length(texts)), texts]
        return more_headers(records, self._count, *parts)
