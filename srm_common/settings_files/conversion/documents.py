"""Documents of YAML or JSON, and their parts by type: a part of another type is an error that names its path."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from srm_common.errors import ConfigError

#: Without the sign. Kubernetes takes no larger numbers, and Python refuses to print much larger ones.
_BITS = 63


def documents_in(path: Path) -> list[object]:
    """The documents of a file. Raises :class:`ConfigError`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(path)) from None
    except UnicodeDecodeError:
        raise ConfigError("is not a text file in UTF-8", file=str(path)) from None
    return documents_of(text, str(path))


def documents_of(text: str, file: str) -> list[object]:
    """The documents of a file's text. Raises :class:`ConfigError`."""
    try:
        # PyYAML reads JSON, too, but not tabs in it.
        return [json.loads(text)] if text.lstrip()[:1] in ("{", "[") else list(yaml.safe_load_all(text))
    except RecursionError:
        raise nested_too_deeply(file) from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"is not JSON: {error.msg}", file=file, line=error.lineno) from None
    except ValueError as error:  # of Python's integers, and of dates
        raise ConfigError(f"cannot be read: {error}", file=file) from None
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or "cannot be read"
        raise ConfigError(f"is not YAML: {problem}", file=file, line=mark.line + 1 if mark else None) from None


def nested_too_deeply(file: str) -> ConfigError:
    """Also of a YAML alias that contains itself."""
    return ConfigError("it is nested too deeply", file=file)


@dataclass(frozen=True)
class Fields:
    """A map of a document. ``path`` is where it is, such as ``spec.clusters[0]``; empty: the document itself.

    Null counts as absent, as in Kubernetes. All methods raise :class:`ConfigError` for a value of another type, which
    the message does not show, since it may be a secret.
    """

    values: Mapping[str, object] = field(repr=False)
    path: str
    file: str

    @classmethod
    def of(cls, value: object, path: str, file: str) -> Fields:
        """``value`` as a map whose keys are all text."""
        if not isinstance(value, Mapping):
            raise ConfigError(f"{path} must be a map, but is {_kind(value)}", file=file)
        for key in value:
            if not isinstance(key, str):
                inside = f" in {path}" if path else ""
                raise ConfigError(f"the key {key}{inside} must be text; put it in quotes", file=file)
        return cls({key: part for key, part in value.items() if part is not None}, path, file)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def place(self, name: str) -> str:
        """The path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def map(self, name: str) -> Fields | None:
        """The map ``name``; None where it is absent."""
        value = self.values.get(name)
        return None if value is None else Fields.of(value, self.place(name), self.file)

    def map_or_empty(self, name: str) -> Fields:
        """The same; absent is empty."""
        return self.map(name) or Fields({}, self.place(name), self.file)

    def needed_map(self, name: str) -> Fields:
        """The same; absent is an error."""
        found = self.map(name)
        if found is None:
            raise self._missing(name)
        return found

    def maps(self, name: str) -> list[Fields]:
        """The maps in the list ``name``; absent is empty."""
        value = self.values.get(name, [])
        if not isinstance(value, list):
            raise self._wrong(name, "a list")
        return [Fields.of(part, f"{self.place(name)}[{number}]", self.file) for number, part in enumerate(value)]

    def text(self, name: str) -> str:
        """Text without blanks around it; absent is empty."""
        value = self.values.get(name, "")
        if not isinstance(value, str):
            raise self._wrong(name, "text")
        return value.strip()

    def needed_text(self, name: str) -> str:
        """The same; absent or empty is an error."""
        found = self.text(name)
        if not found:
            raise ConfigError(f"{self.place(name)} is empty", file=self.file) if name in self else self._missing(name)
        return found

    def switch(self, name: str) -> bool:
        """True or false; absent is false."""
        value = self.values.get(name, False)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def whole(self, name: str) -> int | None:
        """A whole number; None where it is absent."""
        value = self.values.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value.bit_length() > _BITS):
            raise self._wrong(name, "a whole number of 64 bits")
        return value

    def settings(self) -> Iterator[tuple[str, str]]:
        """Keys and values as in a properties file, for maps of settings: text, numbers, true and false."""
        for name, value in self.values.items():
            if isinstance(value, bool):
                yield name, str(value).lower()
            elif isinstance(value, int) and value.bit_length() > _BITS:
                raise self._wrong(name, "a whole number of 64 bits")
            elif isinstance(value, str | int | float):
                yield name, str(value)
            else:
                raise self._wrong(name, "text, a number, true or false")

    def _missing(self, name: str) -> ConfigError:
        return ConfigError(f"{self.place(name)} is missing", file=self.file)

    def _wrong(self, name: str, wanted: str) -> ConfigError:
        value = self.values[name]
        scalar = not isinstance(value, list | Mapping)
        kind = "a larger one" if isinstance(value, int) and value.bit_length() > _BITS else _kind(value)
        quotes = "; put it in quotes" if wanted.startswith("text") and scalar else ""
        return ConfigError(f"{self.place(name)} must be {wanted}, but is {kind}{quotes}", file=self.file)


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return "a number"
    names = ((str, "text"), (list, "a list"), (Mapping, "a map"), (type(None), "null"))
    return next((name for kind, name in names if isinstance(value, kind)), f"a {type(value).__name__}")
