"""Mode IMPORT, in which a subject of the target's registry is while its versions are registered with their ids.

Afterwards its previous mode is restored, since producers cannot register in mode IMPORT. The previous mode is recorded
first, so that the next plan restores it if the run is interrupted. Several flows may register in one registry at the
same time: IMPORT is never taken for a mode to restore, and a registration that another flow's restoring has
interrupted sets the mode once more.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING

from srm_common.domain.flow.names import StateKey
from srm_common.domain.schemas.planning import KEEPING_IDS, RegisterSchema, RestoreMode
from srm_common.domain.schemas.schemas import RegistryView, SubjectNaming, context_of, qualified
from srm_common.domain.topics.actions import ActionResult
from srm_common.domain.topics.state_topics import flow_state_topic
from srm_common.errors import RegistryError
from srm_common.kafka.client.closing import Closing
from srm_common.usecases.flows.flow_clusters import FlowClusters

if TYPE_CHECKING:
    from srm_common.schema_registry.registry import SchemaRegistry

_LOG = logging.getLogger(__name__)
_IMPORT = "IMPORT"
#: Responses of registries that have no mode IMPORT (Karapace: 405), or do not permit setting it (Confluent: 42205).
_NO_IMPORT = frozenset({404, 405, 422, 501})
#: Confluent's ``OperationNotPermittedException``: the subject is not in mode IMPORT, for one.
_NOT_PERMITTED = 42205
_UNEXPLAINED = (
    "it is in mode IMPORT, in which producers cannot register, and no registration of this flow explains that"
)
#: How many modes a refresh asks for, to find subjects that were left in mode IMPORT, and how often it takes others.
_ASKED_AT_A_TIME = 100
_TURN_MS = 3_600_000


class ImportMode(Closing):
    """Sets and restores the modes of subjects; a context manager, at whose end the flow's state has only subjects that
    are left to restore."""

    def __init__(self, clusters: FlowClusters, registry: SchemaRegistry) -> None:
        self._clusters = clusters
        self._registry = registry
        self._interrupted = interrupted_subjects(clusters)
        #: The subjects that may be in mode IMPORT because of this flow, with their mode before: as the flow's state has
        #: them, and as it should have them.
        self._recorded = dict(self._interrupted)
        self._left = dict(self._interrupted)
        self._before = dict(self._interrupted)
        #: Subjects that were in mode IMPORT already: another flow may be registering there.
        self._shared: set[str] = set()
        self._refused: set[str] = set()
        self._set_again: set[str] = set()

    def close(self) -> None:
        self._record()

    def record(self, subjects: Iterable[str]) -> None:
        """Record the modes of subjects in the flow's state, before they are set. Raises RegistryError."""
        for subject in subjects:
            if subject not in self._before:
                self._before[subject] = self._own_mode(subject)
            self._left[subject] = self._before[subject]
        self._record()

    def register(self, actions: Sequence[RegisterSchema]) -> list[ActionResult]:
        """Register versions of one subject, whose mode has been recorded. One that fails does not stop the others."""
        subject = actions[0].subject
        try:
            faults = self._faults(subject, actions)
        finally:
            unrestored = self._end(subject)
        return [ActionResult(action, error=fault or unrestored) for action, fault in zip(actions, faults, strict=True)]

    def restore(self, action: RestoreMode) -> None:
        """Restore a mode as planned, unless that has been done since. Raises RegistryError."""
        subject = action.subject
        if subject in self._left:
            self._registry.set_mode(subject, action.mode)
            del self._left[subject]
        elif action.reason == _UNEXPLAINED and self._registry.mode(subject) == _IMPORT:
            self._registry.set_mode(subject, action.mode)

    def _faults(self, subject: str, actions: Sequence[RegisterSchema]) -> list[str | None]:
        if subject not in self._shared:
            try:
                self._registry.set_mode(subject, _IMPORT)
            except RegistryError as error:
                if error.status in _NO_IMPORT:
                    self._refused.add(subject)
                    return [f"{error}{KEEPING_IDS}"] * len(actions)
                return [str(error)] * len(actions)
        return [self._fault(action) for action in actions]

    def _fault(self, action: RegisterSchema) -> str | None:
        try:
            self._registry.register(action.schema)
            return None
        except RegistryError as error:
            if error.code != _NOT_PERMITTED or action.subject in self._set_again:
                return str(error)
        # Another flow may have restored the mode, which it had set as well.
        self._set_again.add(action.subject)
        try:
            self._set_once_more(action.subject)
            self._registry.register(action.schema)
        except RegistryError as error:
            return str(error)
        return None

    def _set_once_more(self, subject: str) -> None:
        restored = self._own_mode(subject)
        self._shared.discard(subject)
        if restored is not None:  # only the other flow knew it
            self._before[subject] = self._left[subject] = restored
            self._record()
        self._registry.set_mode(subject, _IMPORT)

    def _end(self, subject: str) -> str | None:
        """Restore the mode; if that fails, the reason."""
        if subject in self._refused:
            if subject not in self._interrupted:
                self._left.pop(subject, None)
            return None
        try:
            if subject not in self._shared or self._registry.mode(subject) == _IMPORT:
                self._registry.set_mode(subject, self._before[subject], after_other=True)
        except RegistryError as error:
            return f"it is registered, but its subject is still in mode {_IMPORT}: {error}"
        self._left.pop(subject, None)
        return None

    def _own_mode(self, subject: str) -> str | None:
        mode = self._registry.mode(subject)
        if mode != _IMPORT:
            return mode
        self._shared.add(subject)
        return None

    def _record(self) -> None:
        if self._left == self._recorded:
            return
        if not self._recorded:
            self._clusters.target.ensure([flow_state_topic(self._clusters.flow)])
        self._clusters.state.write(StateKey.IMPORTING, self._left or None)
        self._recorded = dict(self._left)


def interrupted_subjects(clusters: FlowClusters) -> dict[str, str | None]:
    """Subjects whose registration by this flow was interrupted, with the modes to restore. Earlier versions could
    record IMPORT, which was another flow's."""
    recorded: Mapping[str, str | None] = clusters.state.read(StateKey.IMPORTING) or {}
    return {subject: None if mode == _IMPORT else mode for subject, mode in recorded.items()}


def left_in_import(
    clusters: FlowClusters, naming: SubjectNaming, source: RegistryView, target: RegistryView
) -> list[RestoreMode]:
    """Copies in mode IMPORT, though neither the registry nor their context is in that mode: the flow's state was lost,
    or another flow's registration has left them. A part of them at a time, if there are many."""
    if not target.contexts:
        return []
    copies = {naming.target_subject(subject) for subject in source.subjects if naming.is_copied(subject)}
    subjects = sorted(copies.intersection(target.subjects))
    turns = max(1, -(-len(subjects) // _ASKED_AT_A_TIME))
    # At random: one turn after the other, a refresh every few hours would always come to the same.
    turn = Random(clusters.now_ms() // _TURN_MS).randrange(turns)
    with clusters.target.schema_registry as registry:
        try:
            found = [
                subject
                for subject in subjects[turn::turns]
                if registry.mode(subject) == _IMPORT
                and _IMPORT not in (registry.mode(qualified(context_of(subject), "")), registry.mode(""))
            ]
        except RegistryError as error:
            # What is to be registered fails with the reason; copies that are complete need no mode.
            _LOG.info("subjects that were left in mode IMPORT were not looked for: %s", error)
            return []
    return [RestoreMode(clusters.flow.name.target, subject, _UNEXPLAINED, None) for subject in found]


def by_subject(actions: Sequence[RegisterSchema]) -> list[list[RegisterSchema]]:
    """In groups of one subject each, which are as large as the order of references allows: in this order what a schema
    refers to comes before it, as in the given one."""
    waiting: dict[str, list[RegisterSchema]] = {}
    for action in actions:
        waiting.setdefault(action.subject, []).append(action)
    missing = {action.schema.place for action in actions}
    groups: list[list[RegisterSchema]] = []
    while waiting:
        before = len(groups)
        for subject, left in list(waiting.items()):
            group = []
            while left and not any((one.subject, one.version) in missing for one in left[0].schema.references):
                group.append(left.pop(0))
                missing.discard(group[-1].schema.place)
            if group:
                groups.append(group)
            if not left:
                del waiting[subject]
        assert len(groups) > before, "references in a circle are not planned"
    return groups
