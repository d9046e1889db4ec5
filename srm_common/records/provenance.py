"""Headers that say where a record came from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from srm_common.domain.flow.settings import PROVENANCE_HEADERS, Provenance
from srm_common.domain.topic_partition import TopicPartition
from srm_common.wire.reencoding.columns import SCHEMA, encoded_header
from srm_common.wire.varints import write_varint

_NOTHING = pa.scalar(b"", pa.binary())
#: The length of an offset as text, as it lies in a record; it has no more than 19 digits.
_LENGTHS = pa.array([write_varint(length) for length in range(20)], pa.binary())


class ProvenanceHeaders:
    """Those of one partition: numbers as decimal text, all text in UTF-8.

    Args:
        wanted: which, in the order in which they are added behind the headers that a record has.
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
        """The records with their headers."""
        counts = records.column("header_count").to_numpy() + np.int32(self._count)
        parts = [records.column("headers"), pa.scalar(self._same, pa.binary())]
        if self._offset:
            texts = records.column("offset").cast(pa.string()).cast(pa.binary())
            parts += [pa.scalar(self._offset, pa.binary()), _LENGTHS.take(pc.binary_length(texts)), texts]
        raw = pc.binary_join_element_wise(*parts, _NOTHING)
        return pa.RecordBatch.from_arrays([*records.columns[:-2], pa.array(counts), raw], schema=SCHEMA)
