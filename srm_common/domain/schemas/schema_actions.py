"""The changes that a target's schema registry needs, as actions of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from srm_common.domain.schemas.schemas import SchemaVersion, context_of, plain_name
from srm_common.domain.topics.actions import Difference, action_json


@dataclass(frozen=True)
class _SchemaAction:
    kind: ClassVar[str]
    word: ClassVar[str]

    cluster: str
    subject: str
    reason: str

    @property
    def topic(self) -> str:
        """No topic has a space in its name."""
        if plain_name(self.subject):
            return f"subject {self.subject}"
        context = context_of(self.subject)
        return f"context .{context}" if context else "all subjects"


@dataclass(frozen=True)
class RegisterSchema(_SchemaAction):
    """Register a schema with the version and the id that it has at the source."""

    kind: ClassVar[str] = "register_schema"
    word: ClassVar[str] = "register"

    schema: SchemaVersion

    def __str__(self) -> str:
        return (
            f"register version {self.schema.version} of {self.topic} on {self.cluster} with id {self.schema.id} "
            f"({self.reason})"
        )

    def differences(self) -> tuple[Difference, ...]:
        return (Difference(f"{self.schema.schema_type} version {self.schema.version}", None, f"id {self.schema.id}"),)

    def to_json(self) -> dict[str, Any]:
        # Not the schema itself: plans are kept in a record of the flow's state.
        after = {
            "version": self.schema.version,
            "id": self.schema.id,
            "type": self.schema.schema_type,
            "fingerprint": self.schema.fingerprint,
            "references": [[one.name, one.subject, one.version] for one in self.schema.references],
        }
        return action_json(self, None, after)


@dataclass(frozen=True)
class DeleteSchemaVersion(_SchemaAction):
    """Soft-delete a version: it can still be looked up by its id."""

    kind: ClassVar[str] = "delete_schema_version"
    word: ClassVar[str] = "delete"

    version: int

    def __str__(self) -> str:
        return f"soft-delete version {self.version} of {self.topic} on {self.cluster} ({self.reason})"

    def differences(self) -> tuple[Difference, ...]:
        return (Difference(f"version {self.version}", "there", "soft-deleted"),)

    def to_json(self) -> dict[str, Any]:
        return action_json(self, {"version": self.version}, {"version": self.version, "deleted": True})


@dataclass(frozen=True)
class SetCompatibility(_SchemaAction):
    """Give a subject a compatibility level of its own, or the registry another one."""

    kind: ClassVar[str] = "set_compatibility"
    word: ClassVar[str] = "alter"

    before: str | None
    after: str

    def __str__(self) -> str:
        before = "the registry's" if self.before is None else self.before
        return f"set the compatibility of {self.topic} on {self.cluster} from {before} to {self.after} ({self.reason})"

    def differences(self) -> tuple[Difference, ...]:
        return (Difference("compatibility", self.before, self.after),)

    def to_json(self) -> dict[str, Any]:
        return action_json(self, {"compatibility": self.before}, {"compatibility": self.after})


@dataclass(frozen=True)
class RestoreMode(_SchemaAction):
    """End a registration that was interrupted: the subject is still in mode IMPORT, in which producers cannot
    register. ``mode`` None: it had none of its own."""

    kind: ClassVar[str] = "restore_mode"
    word: ClassVar[str] = "restore"

    mode: str | None

    def __str__(self) -> str:
        mode = "the registry's" if self.mode is None else self.mode
        return f"restore the mode of {self.topic} on {self.cluster} to {mode} ({self.reason})"

    def differences(self) -> tuple[Difference, ...]:
        return (Difference("mode", "IMPORT", "the registry's" if self.mode is None else self.mode),)

    def to_json(self) -> dict[str, Any]:
        return action_json(self, {"mode": "IMPORT"}, {"mode": self.mode})


@dataclass(frozen=True)
class UncopiedSchema(_SchemaAction):
    """A schema that cannot be copied, or with an empty subject all of them: an action that always fails, so that
    records without a schema are not taken for complete copies."""

    kind: ClassVar[str] = "sync_schemas"
    word: ClassVar[str] = "sync schemas"

    def __str__(self) -> str:
        return f"sync schemas: {self.topic} on {self.cluster}"

    def differences(self) -> tuple[Difference, ...]:
        return (Difference("schemas", "not copied", "not copied"),)

    def to_json(self) -> dict[str, Any]:
        return action_json(self, None, None)
