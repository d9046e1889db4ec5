"""The settings of Kafka's transforms and predicates, as the ``ConfigDef`` of each class names them."""

from __future__ import annotations

from srm_common.domain.transforms.chain import PREDICATES_PACKAGE
from srm_common.domain.transforms.field_steps import TRANSFORMS_PACKAGE

_NULLS = "replace.null.with.default"
#: What Connect itself reads, whatever the class; KIP-891 has the version, which nothing here depends on.
_OF_ALL = {
    "transforms": ("type", "predicate", "negate", "plugin.version"),
    "predicates": ("type", "plugin.version"),
}
_PACKAGES = {"transforms": TRANSFORMS_PACKAGE, "predicates": PREDICATES_PACKAGE}
_OF_CLASSES = {
    "transforms": {
        "Cast": ("spec", _NULLS),
        "DropHeaders": ("headers",),
        "ExtractField": ("field", "field.syntax.version", _NULLS),
        "Filter": (),
        "Flatten": ("delimiter",),
        "HeaderFrom": ("fields", "headers", "operation", _NULLS),
        "HoistField": ("field",),
        "InsertField": (
            *(f"{of}.field" for of in ("topic", "partition", "offset", "timestamp", "static")),
            "static.value",
            _NULLS,
        ),
        "InsertHeader": ("header", "value.literal"),
        "MaskField": ("fields", "replacement", _NULLS),
        # The last two are refused with their new names.
        "ReplaceField": ("exclude", "include", "renames", _NULLS, "blacklist", "whitelist"),
        "SetSchemaMetadata": ("schema.name", "schema.version", _NULLS),
        "TimestampConverter": ("field", "format", "target.type", "unix.precision", _NULLS),
        "ValueToKey": ("fields", _NULLS),
    },
    "predicates": {"HasHeaderKey": ("name",), "RecordIsTombstone": (), "TopicNameMatches": ("pattern",)},
}


def settings_of(family: str, written: str) -> tuple[str, ...] | None:
    """The settings of a class of ``transforms`` or ``predicates``, with or without its package; None if it is not
    known, so that anything might be one of its settings."""
    own = _OF_CLASSES[family].get(written.strip().removeprefix(_PACKAGES[family]).partition("$")[0])
    return None if own is None else (*own, *_OF_ALL[family])
