"""Applies a flow's chain of Connect transforms to a batch of records in columns.

No transform reorders records: the rows that come out are a subset of those that went in, in the same order. Transforms
that look inside keys or values are in :mod:`srm_common.records.connect`; to all others, keys and values are bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from srm_common.domain.transforms.chain import Chain, PredicateKind, Step, StepKind
from srm_common.records.connect.connect_records import ConnectRecords
from srm_common.records.connect.transforms.header_values import literal_bytes
from srm_common.records.headers import with_header
from srm_common.records.row_faults import RowFaults
from srm_common.wire.reencoding.columns import HEADERS_TYPE, encoded_header, more_headers, parsed_headers, with_headers

if TYPE_CHECKING:
    from srm_common.records.connect.registry_values import RecordSchemas

Mask = npt.NDArray[np.bool_]
#: Steps whose alias is itself a configuration key; the alias of a transform has no dot.
_KEYS = frozenset({"schemas.ids"})


class BatchStep(Protocol):
    """Changes whole batches, before or after the chain: a SQL statement, a user's function, the mapping of schema ids.

    ``alias`` takes the place of a step's alias, ``path`` that of its class. It is called with records in the form of
    :data:`srm_common.wire.reencoding.columns.SCHEMA`, and returns a subset of them in the same order, changed or not.

    Raises:
        RowFaults: it cannot handle some rows; it is called again with the others.
        TransformFailed: it fails for the whole batch.
    """

    @property
    def alias(self) -> str: ...

    @property
    def path(self) -> str: ...

    def __call__(self, records: pa.RecordBatch) -> pa.RecordBatch: ...


class RecordFault(NamedTuple):
    """A record that a step cannot handle: its upstream offset, the step's alias, and why."""

    offset: int
    step: str
    reason: str

    @property
    def key(self) -> str:
        """The configuration key, for messages."""
        return self.step if self.step in _KEYS else f"transforms.{self.step}"

    def __str__(self) -> str:
        return f"offset {self.offset}, {self.key}: {self.reason}"


class Applied(NamedTuple):
    """The records that are left, and by offset those that a step could not handle, which are not among them."""

    records: pa.RecordBatch
    faults: list[RecordFault]


class Transform:
    """The steps of a chain for the records of one partition.

    Args:
        chain: as configured.
        topic: the copy's name, which is what Connect's predicates see in MirrorMaker 2.
        then: steps that follow the chain, in their order.
        partition: the number that InsertField may insert.
        schemas: a registry's, needed where :func:`~srm_common.domain.transforms.chain.schema_formats` says so.
        first: steps that come before the chain.
        upstream: the name of the topic at the source, for the registry; the copy's by default.
    """

    def __init__(
        self,
        chain: Chain,
        topic: str,
        then: Sequence[BatchStep] = (),
        partition: int = 0,
        schemas: RecordSchemas | None = None,
        first: Sequence[BatchStep] = (),
        upstream: str | None = None,
    ) -> None:
        self._first = tuple(first)
        self._then = tuple(then)
        self._fields = ConnectRecords(topic, partition, schemas, upstream)
        self._steps = self._carried_out([step for step in chain if step.concerns(topic)])

    def _carried_out(self, chain: Sequence[Step]) -> list[tuple[Step, Carry]]:
        """Each step with its function. What steps that look into fields have changed is encoded only before a step that
        needs the bytes, and at the end."""
        steps: list[tuple[Step, Carry]] = []
        unwritten: Step | None = None
        for step in chain:
            if step.kind is StepKind.FIELDS:
                steps.append((step, self._fields.apply))
                unwritten = replace(step, predicate=None)
                continue
            if unwritten is not None and step.kind not in _WITHOUT_BYTES:
                steps.append((unwritten, self._fields.write))
                unwritten = None
            steps.append((step, _STEPS[step.kind]))
        return [*steps, (unwritten, self._fields.write)] if unwritten is not None else steps

    @property
    def changes(self) -> bool:
        """Whether any record of the topic may be changed or dropped."""
        return bool(self._first or self._steps or self._then)

    def class_of(self, alias: str) -> str:
        """The full name of a step's class, or what takes its place."""
        classes = {step.alias: step.class_name for step, _ in self._steps}
        return (classes | {batch_step.alias: batch_step.path for batch_step in (*self._first, *self._then)})[alias]

    def apply(self, records: pa.RecordBatch) -> Applied:
        """Apply all steps to records in the form of :data:`srm_common.wire.reencoding.columns.SCHEMA`.

        Raises:
            CorruptBatch: a step looks at headers, and they cannot be read.
            TransformFailed: a statement or function fails for the whole batch, or a registry does not return or accept
                one of its schemas.
        """
        faults: list[RecordFault] = []
        self._fields.forget()
        records = _through(self._first, records, faults)
        for step, carry_out in self._steps:
            while records.num_rows:
                chosen = self._chosen(step, records)
                if chosen is not None and not chosen.any():
                    break
                try:
                    records = carry_out(step, records, chosen)
                    break
                except RowFaults as error:
                    records = _without(records, step.alias, error, faults)
        records = _through(self._then, records, faults)
        return Applied(records, sorted(faults))

    def _chosen(self, step: Step, records: pa.RecordBatch) -> Mask | None:
        """The records to which the step applies; None for all."""
        predicate = step.predicate
        if predicate is None or predicate.kind is PredicateKind.TOPIC_NAME:
            return None
        if predicate.kind is PredicateKind.HEADER_KEY:
            held = with_header(records, predicate.argument)
        else:
            held = self._fields.tombstones(records)
        return ~held if step.negate else held


def _through(steps: Sequence[BatchStep], records: pa.RecordBatch, faults: list[RecordFault]) -> pa.RecordBatch:
    for step in steps:
        while records.num_rows:
            try:
                records = step(records)
                break
            except RowFaults as error:
                records = _without(records, step.alias, error, faults)
    return records


def _without(records: pa.RecordBatch, step: str, error: RowFaults, faults: list[RecordFault]) -> pa.RecordBatch:
    """The records without those that the step cannot handle; at least one is taken away."""
    offsets = records.column("offset")
    faults += [RecordFault(offsets[row].as_py(), step, reason) for row, reason in error.reasons.items()]
    left = np.ones(records.num_rows, np.bool_)
    left[list(error.reasons)] = False
    return records.filter(pa.array(left))


def _filter(step: Step, records: pa.RecordBatch, chosen: Mask | None) -> pa.RecordBatch:
    return records.slice(0, 0) if chosen is None else records.filter(pa.array(~chosen))


def _insert_header(step: Step, records: pa.RecordBatch, chosen: Mask | None) -> pa.RecordBatch:
    name, value = step.arguments
    header: Any = pa.scalar(encoded_header(name, literal_bytes(value, step.header_converter)), pa.binary())
    if chosen is None:
        return more_headers(records, 1, header)
    some = pc.if_else(pa.array(chosen), header, pa.scalar(b"", pa.binary()))
    return more_headers(records, chosen.astype(np.int32), some)


def _drop_headers(step: Step, records: pa.RecordBatch, chosen: Mask | None) -> pa.RecordBatch:
    counts = records.column("header_count").to_numpy()
    if not counts.any():
        return records
    headers = parsed_headers(records)
    structs = headers.flatten()
    drop = _array(pc.is_in(structs.field(0), pa.array([name.encode() for name in step.arguments], pa.binary())))
    owners = np.repeat(np.arange(len(counts)), counts)
    if chosen is not None:
        drop &= chosen[owners]
    if not drop.any():
        return records
    left = np.bincount(owners[~drop], minlength=len(counts))
    offsets = np.concatenate(([0], np.cumsum(left))).astype(np.int32)
    kept = pa.ListArray.from_arrays(pa.array(offsets), structs.filter(pa.array(~drop)), type=HEADERS_TYPE)
    return with_headers(records, kept)


def _array(booleans: Any) -> Mask:
    return np.asarray(booleans.to_numpy(zero_copy_only=False), np.bool_)


Carry = Callable[[Step, pa.RecordBatch, Mask | None], pa.RecordBatch]
_STEPS: dict[StepKind, Carry] = {
    StepKind.FILTER: _filter,
    StepKind.INSERT_HEADER: _insert_header,
    StepKind.DROP_HEADERS: _drop_headers,
}
#: Steps that look at neither keys nor values.
_WITHOUT_BYTES = frozenset((StepKind.FILTER, StepKind.INSERT_HEADER, StepKind.DROP_HEADERS))
