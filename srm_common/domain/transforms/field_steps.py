"""Connect's transforms of fields: their settings, read and checked as Kafka's classes do when they are configured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from srm_common.domain.transforms.date_pattern import DatePattern, PatternError
from srm_common.domain.transforms.faults import TransformFault
from srm_common.domain.transforms.formats import Format, Side, format_of, switch

TRANSFORMS_PACKAGE = "org.apache.kafka.connect.transforms."
_NULLS = "replace.null.with.default"
CAST_TYPES = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
TARGET_TYPES = ("string", "unix", "Date", "Time", "Timestamp")
#: How many make a millisecond, and how many milliseconds make one.
PRECISIONS = {"seconds": (1, 1000), "milliseconds": (1, 1), "microseconds": (1000, 1), "nanoseconds": (1_000_000, 1)}


@dataclass(frozen=True, slots=True)
class Cast:
    """``casts``: fields and the types they get; or ``whole``, the type of the whole key or value."""

    casts: tuple[tuple[str, str], ...]
    whole: str | None
    defaults: bool


@dataclass(frozen=True, slots=True)
class ExtractField:
    """``path``: names from the outermost field to the one that is left."""

    path: tuple[str, ...]
    defaults: bool


@dataclass(frozen=True, slots=True)
class Flatten:
    """``delimiter`` stands between the names of nested fields."""

    delimiter: str


@dataclass(frozen=True, slots=True)
class HeaderFrom:
    """``headers``: field and header of each pair; ``move`` removes the fields."""

    headers: tuple[tuple[str, str], ...]
    move: bool
    defaults: bool


@dataclass(frozen=True, slots=True)
class HoistField:
    """``field`` gets everything."""

    field: str


@dataclass(frozen=True, slots=True)
class Inserted:
    """A field to insert; a schema has it as optional or not."""

    name: str
    optional: bool


@dataclass(frozen=True, slots=True)
class InsertField:
    """Fields to insert; None for those that are not asked for."""

    topic: Inserted | None
    partition: Inserted | None
    timestamp: Inserted | None
    static: Inserted | None
    static_value: str
    defaults: bool


@dataclass(frozen=True, slots=True)
class MaskField:
    """``replacement`` instead of a type's zero, if there is one."""

    fields: tuple[str, ...]
    replacement: str | None
    defaults: bool


@dataclass(frozen=True, slots=True)
class ReplaceField:
    """``include`` is empty for all; ``renames`` are pairs of old and new name."""

    exclude: tuple[str, ...]
    include: tuple[str, ...]
    renames: tuple[tuple[str, str], ...]
    defaults: bool


@dataclass(frozen=True, slots=True)
class SetSchemaMetadata:
    """Name and version that a schema gets; None keeps its own."""

    name: str | None
    version: int | None
    defaults: bool


@dataclass(frozen=True, slots=True)
class TimestampConverter:
    """``field``: empty for the whole key or value. ``target``: one of :data:`TARGET_TYPES`."""

    field: str
    target: str
    pattern: DatePattern | None
    precision: str
    defaults: bool


@dataclass(frozen=True, slots=True)
class ValueToKey:
    """``fields`` of the value make up the new key."""

    fields: tuple[str, ...]
    defaults: bool


_Some = Cast | ExtractField | Flatten | HeaderFrom | HoistField | InsertField
Options = _Some | MaskField | ReplaceField | SetSchemaMetadata | TimestampConverter | ValueToKey


@dataclass(frozen=True, slots=True)
class FieldStep:
    """What a transform of fields does, to which side, and how that is written; ``key_format`` where a value becomes a
    key."""

    side: Side
    format: Format
    options: Options
    key_format: Format | None = None

    @property
    def class_name(self) -> str:
        """Kafka's class, without its package."""
        simple = type(self.options).__name__
        return simple if isinstance(self.options, ValueToKey) else f"{simple}${self.side.value}"


def field_step(alias: str, name: str, values: Mapping[str, str]) -> FieldStep | None:
    """The transform that Kafka's class ``name`` is, None if it is not one of fields.

    Raises:
        TransformFault: a setting is missing or wrong, or the format of what it looks into is not known.
    """
    simple, _, part = name.partition("$")
    if simple not in _PARSERS:
        return None
    key = f"transforms.{alias}.type"
    sides = {side.value: side for side in Side} if simple != "ValueToKey" else {"": Side.VALUE}
    if part not in sides:
        expected = f"{simple}$Key or {simple}$Value" if simple != "ValueToKey" else "ValueToKey"
        raise TransformFault(key, f"is {name}, but must be {expected}")
    side = sides[part]
    options = _PARSERS[simple](_Settings(f"transforms.{alias}.", values))
    own = format_of(side, values, key)
    return FieldStep(side, own, options, format_of(Side.KEY, values, key) if simple == "ValueToKey" else None)


def class_of_fields(written: str) -> bool:
    """Whether a transform's class uses fields of keys or values; with or without its package."""
    return written.strip().removeprefix(TRANSFORMS_PACKAGE).partition("$")[0] in _PARSERS


class _Settings:
    """The settings of one transform."""

    def __init__(self, prefix: str, values: Mapping[str, str]) -> None:
        self._prefix = prefix
        self._values = values

    def fault(self, name: str, reason: str) -> TransformFault:
        return TransformFault(self._prefix + name, reason)

    def text(self, name: str) -> str | None:
        text = self._values.get(self._prefix + name)
        return None if text is None else text.strip()

    def required(self, name: str, what: str) -> str:
        text = self.text(name)
        if text is None:
            raise self.fault(name, f"is missing: {what}")
        return text

    def names(self, name: str) -> tuple[str, ...]:
        listed = (one.strip() for one in (self.text(name) or "").split(","))
        return tuple(one for one in listed if one)

    def required_names(self, name: str, what: str) -> tuple[str, ...]:
        names = self.names(name)
        if not names:
            raise self.fault(name, f"is missing: {what}")
        return names

    def choice(self, name: str, choices: tuple[str, ...], default: str | None = None) -> str:
        text = self.required(name, f"one of {', '.join(choices)}") if default is None else self.text(name) or default
        if text not in choices:
            raise self.fault(name, f"is '{text}', but must be one of {', '.join(choices)}")
        return text

    def pairs(self, name: str) -> tuple[tuple[str, str], ...]:
        """Of ``a:b, c:d``; the last of two for the same."""
        pairs: dict[str, str] = {}
        for one in self.names(name):
            first, colon, second = one.partition(":")
            if not colon or not second or ":" in second:
                raise self.fault(name, f"has '{one}', which is not a pair of names with a colon between them")
            pairs[first] = second
        return tuple(pairs.items())

    @property
    def defaults(self) -> bool:
        return switch(self._prefix + _NULLS, self._values)


def _cast(settings: _Settings) -> Cast:
    specs = settings.required_names("spec", "fields and their types (field:type), or a single type")
    casts: dict[str, str] = {}
    whole = None
    for spec in specs:
        field, colon, of = spec.rpartition(":")
        if of.strip().lower() not in CAST_TYPES or ":" in field:
            raise settings.fault("spec", f"has '{spec}', but types are {', '.join(CAST_TYPES)}")
        if colon:
            casts[field.strip()] = of.strip().lower()
        else:
            whole = of.strip().lower()
    if whole is not None and len(specs) > 1:
        raise settings.fault("spec", "has a type for all fields besides others")
    return Cast(tuple(casts.items()), whole, settings.defaults)


def _extract_field(settings: _Settings) -> ExtractField:
    text = settings.required("field", "the field to extract")
    version = (settings.text("field.syntax.version") or "V1").upper()
    if version not in ("V1", "V2"):
        raise settings.fault("field.syntax.version", f"must be V1 or V2, but is '{version}'")
    path = (text,) if version == "V1" else _path(text)
    if path is None:
        raise settings.fault("field", f"is '{text}', which has a backtick without its counterpart")
    if not path:
        raise settings.fault("field", "is missing: the field to extract")
    return ExtractField(path, settings.defaults)


def _path(text: str) -> tuple[str, ...] | None:
    """The steps of a path with dots and backticks (KIP-821); None if a backtick is not closed."""
    steps: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "`":
            end = text.find(".", at)
            steps.append(text[at:] if end < 0 else text[at:end])
            at = len(text) if end < 0 else end + 1
            continue
        start = at = at + 1
        name = ""
        while True:
            at = text.find("`", at)
            if at < 0:
                return None
            escaped = text[at - 1] == "\\"
            if at == len(text) - 1:
                if escaped:
                    return None
                steps.append(name + text[start:at])
                at += 1
                break
            if text[at + 1] != ".":
                at += 1
            elif escaped:
                name += text[start : at - 1] + "`"
                start = at = at + 1
            else:
                steps.append(name + text[start:at])
                at += 2
                break
    if text.endswith("."):
        steps.append("")
    return tuple(steps)


def _flatten(settings: _Settings) -> Flatten:
    text = settings.text("delimiter")
    return Flatten("." if text is None else text)


def _header_from(settings: _Settings) -> HeaderFrom:
    fields = settings.required_names("fields", "the fields whose values become headers")
    headers = settings.required_names("headers", "the names of the headers")
    if len(fields) != len(headers):
        raise settings.fault("headers", f"has {len(headers)} names, but fields has {len(fields)}")
    move = settings.choice("operation", ("move", "copy")) == "move"
    return HeaderFrom(tuple(zip(fields, headers, strict=True)), move, settings.defaults)


def _hoist_field(settings: _Settings) -> HoistField:
    return HoistField(settings.required("field", "the field that gets everything"))


def _insert_field(settings: _Settings) -> InsertField:
    if settings.text("offset.field") is not None:
        raise settings.fault(
            "offset.field", "is for sink connectors: MirrorMaker 2's records have no offset yet, and each would fail"
        )
    topic, partition, timestamp, static = (
        _inserted(settings.text(f"{name}.field")) for name in ("topic", "partition", "timestamp", "static")
    )
    if not any((topic, partition, timestamp, static)):
        raise settings.fault("topic.field", "is missing, as are the other fields that InsertField could insert")
    value = settings.text("static.value")
    if static is not None and value is None:
        raise settings.fault("static.value", "is missing: the value of static.field")
    return InsertField(topic, partition, timestamp, static, value or "", settings.defaults)


def _inserted(text: str | None) -> Inserted | None:
    if text is None:
        return None
    return Inserted(text[:-1] if text.endswith(("?", "!")) else text, not text.endswith("!"))


def _mask_field(settings: _Settings) -> MaskField:
    fields = settings.required_names("fields", "the fields to mask")
    replacement = settings.text("replacement")
    if replacement == "":
        raise settings.fault("replacement", "must not be empty: leave it out to mask with empty text or 0")
    return MaskField(fields, replacement, settings.defaults)


def _replace_field(settings: _Settings) -> ReplaceField:
    for old, new in (("blacklist", "exclude"), ("whitelist", "include")):
        if settings.text(old) is not None:
            raise settings.fault(old, f"is not known to Kafka 4 any more: it is called {new}")
    return ReplaceField(
        settings.names("exclude"), settings.names("include"), settings.pairs("renames"), settings.defaults
    )


def _set_schema_metadata(settings: _Settings) -> SetSchemaMetadata:
    name, text = settings.text("schema.name"), settings.text("schema.version")
    if name is None and text is None:
        raise settings.fault("schema.name", "is missing, as is schema.version: one of them is needed")
    try:
        version = None if text is None else int(text)
    except ValueError:
        raise settings.fault("schema.version", f"must be an integer, but is '{text}'") from None
    return SetSchemaMetadata(name, version, settings.defaults)


def _timestamp_converter(settings: _Settings) -> TimestampConverter:
    target = settings.choice("target.type", TARGET_TYPES)
    precision = settings.choice("unix.precision", tuple(PRECISIONS), "milliseconds")
    text = settings.text("format") or ""
    if target == "string" and not text.strip():
        raise settings.fault("format", "is missing: the pattern of timestamps in text")
    try:
        pattern = DatePattern(text) if text.strip() else None
    except PatternError as error:
        raise settings.fault("format", f"cannot be used: {error}") from None
    return TimestampConverter(settings.text("field") or "", target, pattern, precision, settings.defaults)


def _value_to_key(settings: _Settings) -> ValueToKey:
    return ValueToKey(
        settings.required_names("fields", "the fields of the value that make up the key"), settings.defaults
    )


_PARSERS: Mapping[str, Callable[[_Settings], Options]] = {
    "Cast": _cast,
    "ExtractField": _extract_field,
    "Flatten": _flatten,
    "HeaderFrom": _header_from,
    "HoistField": _hoist_field,
    "InsertField": _insert_field,
    "MaskField": _mask_field,
    "ReplaceField": _replace_field,
    "SetSchemaMetadata": _set_schema_metadata,
    "TimestampConverter": _timestamp_converter,
    "ValueToKey": _value_to_key,
}
#: Kafka's transforms of fields; all but ValueToKey come as ``$Key`` and ``$Value``.
FIELD_TRANSFORMS = tuple(_PARSERS)
