"""JSON Schema as Confluent's converter reads it: the parts of each schema that determine its Connect schema.

Drafts 4 to 7 are read as by everit's ``SchemaLoader``, 2019-09 and 2020-12 as Confluent's ``SchemaTranslator``
translates them to everit's classes. Nothing is fetched: the registry has all that a schema refers to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin

from srm_common.records.connect.data.hash_map import HashMap, hash_set
from srm_common.records.connect.data.java_values import DataFault
from srm_common.records.connect.registry_values import Reference


class Kind(Enum):
    """everit's classes, as far as the converter tells them apart."""

    ANY = "any"
    ARRAY = "array"
    BOOLEAN = "boolean"
    CONST = "const"
    ENUM = "enum"
    NULL = "null"
    NUMBER = "number"
    OBJECT = "object"
    REFERENCE = "reference"
    STRING = "string"
    ALL_OF = "allOf"
    ONE_OF = "oneOf or anyOf"
    OTHER = "not, if or false"


@dataclass(eq=False, slots=True)
class JsonSchema:
    """A schema, compared by identity.

    Args:
        own: the JSON object that has its title, description, default and ``connect.`` properties.
        parts: the schemas in ``allOf``, ``anyOf`` or ``oneOf``.
        properties: in the order of Java's ``HashMap``.
        additional: the schema of additional properties, if there is one.
        items: the schema of all items, if there is one for all.
        symbols: the values of ``enum`` or ``const``.
        formatted: it has a ``format``, and its dialect does not ignore it.
        referred: returns what a reference refers to.
    """

    kind: Kind
    own: Mapping[str, Any] = field(default_factory=dict)
    parts: Sequence[JsonSchema] = ()
    properties: Mapping[str, JsonSchema] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    additional: JsonSchema | None = None
    items: JsonSchema | None = None
    integer: bool = False
    symbols: Sequence[Any] = ()
    formatted: bool = False
    referred: Callable[[], JsonSchema] | None = None


class _Dialect(NamedTuple):
    id_keyword: str = "$id"
    constants: bool = True
    conditions: bool = True
    #: Since 2019-09, ``$ref`` may have keywords beside it, ``format`` has no effect, and ``$id`` begins a document.
    modern: bool = False


_DRAFT_7 = _Dialect()
_DIALECTS = {
    "draft-04/schema": _Dialect("id", constants=False, conditions=False),
    "schema": _Dialect("id", constants=False, conditions=False),
    "draft-06/schema": _Dialect(conditions=False),
    "draft-07/schema": _DRAFT_7,
    "draft/2019-09/schema": _Dialect(modern=True),
    "draft/2020-12/schema": _Dialect(modern=True),
}
_ARRAYS = ("items", "additionalItems", "minItems", "maxItems", "uniqueItems")
_OBJECTS = ("properties", "required", "minProperties", "maxProperties", "patternProperties", "additionalProperties")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_STRINGS = ("minLength", "maxLength", "pattern")
_COMBINED = ("allOf", "anyOf", "oneOf")


class _Scope(NamedTuple):
    """The context of a schema: the document whose root is ``#``, the base URI of references, the dialect."""

    document: Any
    base: str
    dialect: _Dialect


def parsed(text: str, references: Sequence[Reference] = ()) -> JsonSchema:
    """Parse a schema of a registry.

    Args:
        references: all schemas that it refers to, dependencies first.

    Raises:
        DataFault: not a JSON Schema. References are resolved only when they are followed.
    """
    loader = _Loader(_json(text), references)
    return loader.load(loader.root.document, loader.root)


def _json(text: str) -> Any:
    def constant(word: str) -> Any:
        raise ValueError(word)

    try:
        return json.loads(text, parse_float=Decimal, parse_constant=constant)
    except (ValueError, InvalidOperation, RecursionError):
        raise DataFault("has a schema that is not JSON") from None


def _wrong(what: str) -> DataFault:
    return DataFault(f"has a schema that is not JSON Schema: {what}")


class _Loader:
    def __init__(self, root: Any, references: Sequence[Reference]) -> None:
        self.root = self._scope(root, "", _DRAFT_7)
        self._texts: dict[str, str] = {}
        for reference in references:
            for name in (reference.name, reference.name.removeprefix("./"), _joined(self.root.base, reference.name)):
                self._texts.setdefault(name, reference.text)
        self._documents: dict[str, _Scope] = {}
        self._loaded: dict[int, JsonSchema] = {}
        self._ids: dict[str, tuple[Any, _Scope]] = {}
        self._index(root, self.root)

    def _scope(self, document: Any, base: str, otherwise: _Dialect) -> _Scope:
        dialect = otherwise
        if isinstance(document, dict):
            schema = str(document.get("$schema")).removesuffix("#")
            start, _, rest = schema.partition("json-schema.org/")
            if start in ("http://", "https://"):
                dialect = _DIALECTS.get(rest, otherwise)
            own = document.get(dialect.id_keyword)
            base = _joined(base, own) if isinstance(own, str) else base
        return _Scope(document, base, dialect)

    def _within(self, node: Mapping[str, Any], scope: _Scope) -> _Scope:
        """The scope inside a schema: its own id changes the base URI and, since 2019-09, the document."""
        own = node.get(scope.dialect.id_keyword)
        if node is scope.document or not isinstance(own, str) or own.startswith("#"):
            return scope
        return _Scope(node if scope.dialect.modern else scope.document, _joined(scope.base, own), scope.dialect)

    def _index(self, node: Any, scope: _Scope) -> None:
        """Collect the schemas that have an id or an anchor."""
        if isinstance(node, dict):
            within = self._within(node, scope)
            own = node.get(scope.dialect.id_keyword)
            if isinstance(own, str):
                self._ids.setdefault(_joined(scope.base, own).removesuffix("#"), (node, within))
            if isinstance(node.get("$anchor"), str):
                self._ids.setdefault(_joined(within.base, f"#{node['$anchor']}"), (node, within))
            scope = within
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            self._index(child, scope)

    def _referred(self, reference: str, scope: _Scope) -> JsonSchema:
        node, within = self._found(reference, scope)
        loaded = self._loaded.get(id(node))
        if loaded is None:
            loaded = self._loaded[id(node)] = self.load(node, within)
        return loaded

    def _found(self, reference: str, scope: _Scope) -> tuple[Any, _Scope]:
        address = _joined(scope.base, reference).removesuffix("#")
        if address in self._ids:
            return self._ids[address]
        if reference.startswith("#"):
            return _pointed(scope, reference[1:], reference)
        start, _, fragment = address.partition("#")
        for name, pointer in ((address, ""), (reference, ""), (start, fragment), (reference.split("#")[0], fragment)):
            if name in self._ids:
                node, within = self._ids[name]
                return _pointed(within._replace(document=node), pointer, reference)
            if name.removeprefix("./") in self._texts:
                return _pointed(self._document(name.removeprefix("./")), pointer, reference)
        raise DataFault(f"has a schema that refers to {reference}, which is not among its references in the registry")

    def _document(self, name: str) -> _Scope:
        scope = self._documents.get(name)
        if scope is None:
            scope = self._scope(_json(self._texts[name]), _joined(self.root.base, name), self.root.dialect)
            self._documents[name] = scope
            self._index(scope.document, scope)
        return scope

    def load(self, node: Any, scope: _Scope) -> JsonSchema:
        """Raises :class:`DataFault` if a keyword has a value that JSON Schema does not allow."""
        if isinstance(node, bool):
            return JsonSchema(Kind.ANY if node else Kind.OTHER)
        if not isinstance(node, dict):
            raise _wrong("a schema is neither an object nor a boolean")
        scope = self._within(node, scope)
        schemas = list(self._extracted(node, scope))
        made = JsonSchema(Kind.ANY) if not schemas else schemas[0] if len(schemas) == 1 else JsonSchema(Kind.ALL_OF)
        if len(schemas) > 1:
            made.parts = schemas
        made.own = node
        return made

    def _extracted(self, node: dict[str, Any], scope: _Scope) -> Iterator[JsonSchema]:
        """A schema for each group of keywords, in the order of everit's extractors."""
        dialect = scope.dialect
        if "$ref" in node:
            reference = node["$ref"]
            if not isinstance(reference, str):
                raise _wrong("$ref is not a string")
            yield JsonSchema(Kind.REFERENCE, referred=lambda: self._referred(reference, scope))
            if not dialect.modern:
                return
        if "enum" in node:
            yield JsonSchema(Kind.ENUM, symbols=_list(node, "enum"))
        for keyword in hash_set(one for one in _COMBINED if one in node):
            parts = [self.load(one, scope) for one in _list(node, keyword)]
            yield JsonSchema(Kind.ALL_OF if keyword == "allOf" else Kind.ONE_OF, parts=parts)
        if "not" in node:
            yield JsonSchema(Kind.OTHER)
        if dialect.constants and "const" in node:
            yield JsonSchema(Kind.CONST, symbols=[node["const"]])
        types: list[Any] = []
        if "type" in node:
            types = node["type"] if isinstance(node["type"], list) else [node["type"]]
            typed = [self._typed(one, node, scope) for one in types]
            yield typed[0] if types is not node["type"] else JsonSchema(Kind.ONE_OF, parts=typed)
        yield from self._sniffed(node, types, scope)

    def _sniffed(self, node: dict[str, Any], types: Sequence[Any], scope: _Scope) -> Iterator[JsonSchema]:
        """The types that keywords imply, unless ``type`` names them."""
        modern = scope.dialect.modern
        groups = (
            ("array", (*_ARRAYS, "contains", *(("prefixItems", "unevaluatedItems") if modern else ()))),
            (
                "object",
                (
                    *(*_OBJECTS, "propertyNames"),
                    *(("dependentRequired", "dependentSchemas", "unevaluatedProperties") if modern else ()),
                    *(() if modern else ("dependencies",)),
                ),
            ),
            ("number", _NUMBERS),
            ("string", _STRINGS if modern else (*_STRINGS, "format")),
        )
        for name, keywords in groups:
            told = name in types or (name == "number" and "integer" in types)
            if not told and any(keyword in node for keyword in keywords):
                yield self._typed(name, node, scope)
        if scope.dialect.conditions and any(one in node for one in ("if", "then", "else")):
            yield JsonSchema(Kind.OTHER)

    def _typed(self, name: Any, node: dict[str, Any], scope: _Scope) -> JsonSchema:
        match name:
            case "boolean" | "null":
                return JsonSchema(Kind(name))
            case "number" | "integer":
                return JsonSchema(Kind.NUMBER, integer=name == "integer")
            case "string":
                return JsonSchema(Kind.STRING, formatted="format" in node and not scope.dialect.modern)
            case "array":
                return self._array(node, scope)
            case "object":
                return self._object(node, scope)
        raise _wrong(f"unknown type {name}" if isinstance(name, str) else "a type is not a string")

    def _array(self, node: dict[str, Any], scope: _Scope) -> JsonSchema:
        items = node.get("items")
        single = isinstance(items, dict | bool)
        if scope.dialect.modern and (isinstance(items, bool) or "prefixItems" in node):
            single = False
        return JsonSchema(Kind.ARRAY, items=self.load(items, scope) if single else None)

    def _object(self, node: dict[str, Any], scope: _Scope) -> JsonSchema:
        properties, required = node.get("properties", {}), node.get("required", [])
        if not isinstance(properties, dict):
            raise _wrong("properties is not an object")
        if not isinstance(required, list) or not all(isinstance(one, str) for one in required):
            raise _wrong("required is not a list of names")
        additional = node.get("additionalProperties")
        return JsonSchema(
            Kind.OBJECT,
            properties={
                name: self.load(one, scope)
                for name, one in HashMap.copy_of(HashMap(properties)).entries()
                if name != scope.dialect.id_keyword or isinstance(one, dict)
            },
            required=frozenset(required),
            additional=self.load(additional, scope) if isinstance(additional, dict) else None,
        )


def _list(node: Mapping[str, Any], keyword: str) -> list[Any]:
    found = node[keyword]
    if not isinstance(found, list):
        raise _wrong(f"{keyword} is not a list")
    return found


def _joined(base: str, address: str) -> str:
    try:
        return urljoin(base, address)
    except ValueError:
        return address


def _pointed(scope: _Scope, pointer: str, reference: str) -> tuple[Any, _Scope]:
    """What a JSON pointer points to; ``$defs`` falls back to ``definitions``."""
    node = scope.document
    words = [unquote(word).replace("~1", "/").replace("~0", "~") for word in pointer.split("/")]
    if words[0]:
        raise DataFault(f"has a schema that refers to {reference}, which does not exist")
    for place, word in enumerate(words[1:]):
        if place == 0 and word == "$defs" and isinstance(node, dict):
            definitions, named = node.get("definitions"), node.get("$defs", {})
            if isinstance(definitions, dict) and isinstance(named, dict) and words[2:3] and words[2] not in named:
                node = definitions
                continue
        if isinstance(node, dict) and word in node:
            node = node[word]
        elif isinstance(node, list) and word.isascii() and word.isdigit() and len(word) < 10 and int(word) < len(node):
            node = node[int(word)]
        else:
            raise DataFault(f"has a schema that refers to {reference}, which does not exist")
    return node, scope
