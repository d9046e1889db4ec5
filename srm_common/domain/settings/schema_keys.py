"""Keys that determine which schemas are copied from registry to registry."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from srm_common.domain.settings.key import Key, Kind

_OFF = "A flow that copies bytes needs no registry."


def schema_keys() -> Iterator[Key]:
    key = partial(Key, section="Schemas")
    yield key("sync.schemas.enabled", Kind.SWITCH, "false", flow_field="sync_schemas").means(
        "Copy schemas from the source's registry to the target's, with their ids, before records are copied; both need "
        "`<alias>.schema.registry.url`, see [schemas.md](schemas.md).",
        _OFF,
    )
    yield key("sync.schemas.interval.seconds", Kind.NUMBER, "0", unit="seconds").means(
        "How often at most; 0 means each run.", "A schema is there before the first record that needs it."
    )
    yield key("schemas.subjects", Kind.PATTERNS, ".*").means(
        "Subjects to copy: an expression must match the whole name. Schemas that these refer to are copied, too.",
        "All schemas that records may need.",
    )
    yield key("schemas.subjects.exclude", Kind.PATTERNS, "").means(
        "Subjects not to copy; overrides `schemas.subjects`.", "All schemas that records may need."
    )
    yield key("schemas.context", Kind.TEXT, "").means(
        "The context of the target's registry that gets the schemas: with `east`, the subject `orders-value` is copied "
        "as `:.east:orders-value`. What came from the target in this way is not copied back. Empty: the same names.",
        "Consumers look schemas up in the default context.",
    )
    yield key("schemas.compatibility", Kind.CHOICE, "subjects", choices=("none", "subjects", "all")).means(
        "Which compatibility levels are copied: those of subjects, `all` for the registry's own level as well, or "
        "`none`.",
        "The registry's own level is also that of subjects that are not copied.",
    )
