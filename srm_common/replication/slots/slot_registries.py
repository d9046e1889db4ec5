"""A slot's requests to schema registries, sent from a thread so that the slot continues with other partitions. If a
response is still missing, :class:`SchemasPending` is raised: what was taken from the partition so far stays in the
chunk, and the partition is fetched again from there when the response has arrived.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from srm_common.domain.runs.copying import CopyJob
from srm_common.domain.transforms.chain import schema_formats
from srm_common.domain.transforms.formats import Side
from srm_common.errors import SrmError, TransformFailed
from srm_common.replication.slots.slot_watch import quiet_seconds

if TYPE_CHECKING:
    from srm_common.records.connect.registry_values import NewSchema, SchemaText
    from srm_common.schema_registry.record_schemas import RegistrySchemaIds, RegistrySchemas

T = TypeVar("T")
_CACHED_ANSWERS = 10_000
#: As :mod:`srm_common.schema_registry.record_schemas` has it for what a registry does not know.
_UNKNOWN_SECONDS = 10.0
#: The longest that one request to one address may take.
_LONGEST_REQUEST_SECONDS = 10.0
_SHARE_OF_QUIET = 0.8


class SchemasPending(Exception):
    """A registry has not answered yet; the text says which question. ``until``: when it is given up at the latest, in
    monotonic seconds."""

    def __init__(self, what: str, until: float) -> None:
        super().__init__(what)
        self.until = until


class Registries(NamedTuple):
    """The registries of one thread; no other uses them."""

    schemas: RegistrySchemas
    ids: RegistrySchemaIds | None


class _Answer(NamedTuple):
    value: Any
    error: BaseException | None
    until: float


@dataclass(eq=False)
class _Worker:
    """A thread with its own registries. A hanging thread is abandoned."""

    questions: queue.SimpleQueue[tuple[Hashable, Callable[[Registries], Any]] | None] = field(
        default_factory=queue.SimpleQueue
    )


class SlotRegistries:
    """What :class:`~srm_common.records.connect.registry_values.RecordSchemas` and
    :class:`~srm_common.records.schema_id_step.MappedIds` ask for, without waiting. For one thread.

    Args:
        make: the registries, new ones for each thread that asks them.
        limit_seconds: how long a question may take, whatever it waits for, including the lookup of a name.
        names: of the clusters, for messages.
        read_from: whose registry the ids of records belong to.

    Raises:
        SchemasPending: from every question that has no answer yet.
        TransformFailed: the registry does not return or accept it, or has not answered in time; the next question
            starts over.
    """

    def __init__(
        self,
        make: Callable[[], Registries],
        limit_seconds: float,
        names: tuple[str, str],
        read_from: Literal["source", "target"] = "source",
    ) -> None:
        self.read_from = read_from
        self._make = make
        self._limit = limit_seconds
        self._names = names
        self._answers: dict[Hashable, _Answer] = {}
        #: Until when answers are awaited, and from which thread.
        self._asked: dict[Hashable, tuple[float, _Worker]] = {}
        self._worker: _Worker | None = None
        self._lock = threading.Lock()
        #: Called in another thread for each answer.
        self.on_answer: Callable[[], None] = lambda: None

    def schema(self, number: int, topic: str, side: Side) -> SchemaText | None:
        """The schema that keys or values of a topic of the source have with this id; None if there is none."""
        return self._ask(
            ("schema", number, topic, side),
            _id_of(number, topic, side),
            lambda there: there.schemas.schema(number, topic, side),
        )

    def subject(self, number: int, topic: str, side: Side) -> str | None:
        """A subject that has the schema with this id, for messages; None if the registry does not return one."""
        return self._ask(
            ("subject", number, topic, side),
            _id_of(number, topic, side),
            lambda there: there.schemas.subject(number, topic, side),
        )

    def registered(self, new: NewSchema) -> int:
        """The id of a schema in its subject at the target; registered if it is not there."""
        return self._ask(
            ("registered", new),
            f"the schema that transforms give records of {new.copy}, as {new.subject}",
            lambda there: there.schemas.registered(new),
        )

    def mapped(self, number: int, topic: str, side: Side) -> int | None:
        """The target's id for one of the source's; None if the source's registry does not know it."""

        def ask(there: Registries) -> int | None:
            assert there.ids is not None
            return there.ids.mapped(number, topic, side)

        return self._ask(("mapped", number, topic, side), _id_of(number, topic, side), ask)

    def is_own(self, number: int, topic: str, side: Side) -> bool:
        """Whether a subject of the topic itself has the schema with this id at the source."""

        def ask(there: Registries) -> bool:
            assert there.ids is not None
            return there.ids.is_own(number, topic, side)

        return self._ask(("own", number, topic, side), _id_of(number, topic, side), ask)

    def close(self) -> None:
        """End the thread, unless it hangs."""
        if self._worker is not None:
            self._worker.questions.put(None)
            self._worker = None

    def _ask(self, key: Hashable, what: str, work: Callable[[Registries], T]) -> T:
        now = time.monotonic()
        with self._lock:
            answer = self._answers.get(key)
            if answer is not None and answer.error is None and now < answer.until:
                return answer.value  # type: ignore[no-any-return]
            self._answers.pop(key, None)
            if answer is not None and answer.error is not None:
                raise answer.error
            until, worker = self._asked.get(key, (None, None))
            if until is not None and now >= until:
                # Questions that wait behind it in that thread time out by themselves; later ones get a new thread.
                del self._asked[key]
                if worker is self._worker:
                    self._worker = None
                source, target = self._names
                raise TransformFailed(
                    f"{what}: the schema registries of {source} and {target} have not answered within "
                    f"{self._limit:g} s; check {source}.schema.registry.url, {target}.schema.registry.url and whether "
                    f"their names resolve"
                )
            if until is None:
                until = now + self._limit
                self._asked[key] = until, self._put(key, work)
        raise SchemasPending(what, until)

    def _put(self, key: Hashable, work: Callable[[Registries], Any]) -> _Worker:
        if self._worker is None:
            self._worker = worker = _Worker()
            threading.Thread(target=self._serve, args=(worker,), name="srm-schemas", daemon=True).start()
        self._worker.questions.put((key, work))
        return self._worker

    def _serve(self, worker: _Worker) -> None:
        there: Registries | None = None
        while (question := worker.questions.get()) is not None:
            key, work = question
            value: Any = None
            error: BaseException | None = None
            try:
                there = there or self._make()
                value = work(there)
            except TransformFailed as fault:
                error = fault
            except SrmError as fault:
                # Such as a certificate that is being replaced: a fault of the partitions that need it, not of the slot.
                error = TransformFailed(str(fault))
            except BaseException as fault:  # raised in the caller
                error = fault
            until = time.monotonic() + _UNKNOWN_SECONDS if value is None else float("inf")
            with self._lock:
                if worker is not self._worker:
                    return
                if len(self._answers) >= _CACHED_ANSWERS:
                    self._answers.clear()
                self._answers[key] = _Answer(value, error, until)
                self._asked.pop(key, None)
            self.on_answer()


def _id_of(number: int, topic: str, side: Side) -> str:
    return f"schema id {number} of the {side.prefix}s of {topic}"


def slot_registries(job: CopyJob) -> SlotRegistries | None:
    """The registries for a job's transforms, statements and schema ids; None if they need none.

    Raises:
        ConfigError: a cluster has no registry, or a certificate or key of one cannot be read.
    """
    writes = bool(schema_formats(job.transforms)) or job.id_mapping is not None
    if not writes and not job.reads_avro:
        return None
    from srm_common.schema_registry.registry import SchemaRegistry
    from srm_common.schema_registry.schema_ids import MappedContexts

    # Of all threads: the answers of one that hangs are used while another one has taken its place.
    contexts = MappedContexts(job.schemas_context)
    seconds = min(_LONGEST_REQUEST_SECONDS, job.request_timeout_ms / 1000)

    def registries() -> tuple[SchemaRegistry, SchemaRegistry | None]:
        source = SchemaRegistry(job.source, timeout_seconds=seconds)
        return source, SchemaRegistry(job.target, timeout_seconds=seconds) if writes else None

    def make() -> Registries:
        from srm_common.schema_registry.record_schemas import RegistrySchemaIds, RegistrySchemas

        source, target = registries()
        if job.id_mapping is None:
            return Registries(RegistrySchemas(source, target, job.schemas_context), None)
        # Records that reach the chain already have the target's ids.
        assert target is not None
        return Registries(
            RegistrySchemas(target, target, job.schemas_context, contexts),
            RegistrySchemaIds(source, target, job.id_mapping.naming, contexts),
        )

    addresses = sum(
        len(settings.schema_registry.urls)
        for settings in (job.source, job.target)
        if settings.schema_registry is not None
    )
    # Enough for each address once, and for a busy registry, but less than the slot's watch allows.
    limit = min(max(job.retry_timeout_seconds, 2 * seconds * addresses), quiet_seconds(job) * _SHARE_OF_QUIET)
    registries()  # so that what is wrong with them is raised before anything is copied
    read_from: Literal["source", "target"] = "source" if job.id_mapping is None else "target"
    return SlotRegistries(make, limit, (job.source.alias, job.target.alias), read_from)
