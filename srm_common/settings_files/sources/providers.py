"""``${provider:path:key}`` in values, as Kafka's config providers resolve it (KIP-297, KIP-421, KIP-887).

``env``, ``file`` and ``dir`` always exist; ``config.providers`` may define other names and limits for them. Unlike in
Kafka, which leaves the text unresolved, a missing value is an error: the text would end up as a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from srm_common.domain.settings.layers import Entry, Scope
from srm_common.errors import ConfigError
from srm_common.settings_files.sources.properties import read_properties
from srm_common.settings_files.sources.secret_variables import variable

_REFERENCE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")  # ConfigTransformer.DEFAULT_PATTERN
_CLASSES = {
    "EnvVarConfigProvider": "env",
    "FileConfigProvider": "file",
    "DirectoryConfigProvider": "dir",
}


@dataclass(frozen=True, slots=True)
class _Provider:
    kind: str
    allowed_paths: tuple[Path, ...] = ()
    allowed_names: re.Pattern[str] | None = None


@dataclass
class Providers:
    """Resolves references while one configuration is loaded; files are read once."""

    declared: Mapping[str, _Provider]
    #: Environment variables that are known already, whatever this process has.
    known: Mapping[str, str] = field(default_factory=dict, repr=False)
    _files: dict[Path, dict[str, str]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, top: Scope) -> Providers:
        """Read ``config.providers``. Raises :class:`ConfigError` for a provider that is not available."""
        providers = {kind: _Provider(kind) for kind in _CLASSES.values()}
        listed = top.get("config.providers")
        for name in (part.strip() for part in (listed.value if listed else "").split(",")):
            if name:
                providers[name] = _declared(name, top, listed)
        return cls(providers)

    def variables(self, text: str) -> Iterator[str]:
        """The environment variables that ``text`` refers to."""
        for match in _REFERENCE.finditer(text) if "${" in text else ():
            provider = self.declared.get(match[1])
            if provider is not None and provider.kind == "env":
                yield match[4]

    def files(self, text: str) -> Iterator[str]:
        """The files that ``text`` refers to."""
        for match in _REFERENCE.finditer(text) if "${" in text else ():
            provider = self.declared.get(match[1])
            if provider is not None and provider.kind != "env" and match[3]:
                yield match[3] if provider.kind == "file" else f"{match[3]}/{match[4]}"

    def again(self, texts: Iterable[str]) -> Providers:
        """Providers that read the files of references again, but keep what the environment variables that ``texts``
        refer to hold here and now, also in another process."""
        names = {name for text in texts for name in self.variables(text)}
        values = {name: self.known[name] if name in self.known else variable(name) for name in names}
        return Providers(self.declared, {name: value for name, value in values.items() if value is not None})

    def resolve(self, entry: Entry, text: str | None = None) -> str:
        """The value of ``entry`` with every reference replaced. Raises :class:`ConfigError`."""
        value = entry.value if text is None else text
        if "${" not in value:
            return value
        return _REFERENCE.sub(lambda match: self._value(match, entry), value)

    def _value(self, match: re.Match[str], entry: Entry) -> str:
        name, path, key = match[1], match[3] or "", match[4]
        provider = self.declared.get(name)
        if provider is None:
            return match[0]  # not a reference to anything declared: Kafka leaves it too
        if provider.kind == "env":
            if provider.allowed_names is not None and not provider.allowed_names.fullmatch(key):
                raise _fault(entry, f"config.providers.{name}.param.allowlist.pattern does not allow {match[0]}")
            found = self.known[key] if key in self.known else variable(key)
            if found is None:
                raise _fault(entry, f"the environment has no variable {key}, which {match[0]} asks for")
            return found
        if not path:
            raise _fault(entry, f"{match[0]} names no path; write ${{{name}:/path:key}}")
        if "\0" in path + key:
            raise _fault(entry, "has a reference with a NUL character, which no path has")
        place = Path(path)
        if provider.allowed_paths and not any(
            place.resolve().is_relative_to(allowed) for allowed in provider.allowed_paths
        ):
            raise _fault(entry, f"config.providers.{name}.param.allowed.paths does not allow {match[0]}")
        if provider.kind == "dir":
            if "/" in key:
                raise _fault(entry, f"{match[0]} must name a file of the folder {place}")
            try:
                return (place / key).read_text(encoding="utf-8")
            except UnicodeDecodeError:
                raise _fault(entry, f"{match[0]} cannot be read: it is not text in UTF-8") from None
            except OSError as error:
                raise _fault(entry, f"{match[0]} cannot be read: {error.strerror}") from None
        values = self._file(place, match[0], entry)
        if key not in values:
            raise _fault(entry, f"{place} has no key {key}, which {match[0]} asks for")
        return values[key]

    def _file(self, place: Path, reference: str, entry: Entry) -> dict[str, str]:
        if place not in self._files:
            try:
                self._files[place] = {found.key: found.value for found in read_properties(place)}
            except ConfigError as error:
                raise _fault(entry, f"{reference} cannot be read: {error}") from None
        return self._files[place]


def _declared(name: str, top: Scope, listed: Entry | None) -> _Provider:
    prefix = f"config.providers.{name}."
    written = top.get(prefix + "class")
    where = written or listed
    assert where is not None
    if written is None:
        kind = name if name in _CLASSES.values() else None
    else:
        kind = _CLASSES.get(written.value.strip().rpartition(".")[2])
    if kind is None:
        raise _fault(
            where,
            f"provider '{name}' must be one of {', '.join(_CLASSES)}; other Java classes are not loaded",
        )
    paths = top.get(prefix + "param.allowed.paths")
    names = top.get(prefix + "param.allowlist.pattern")
    try:
        pattern = re.compile(names.value.strip()) if names else None
    except re.error as error:
        assert names is not None
        raise _fault(names, f"is not a usable expression: {error}") from None
    return _Provider(
        kind,
        tuple(Path(part.strip()).resolve() for part in paths.value.split(",") if part.strip()) if paths else (),
        pattern,
    )


def _fault(entry: Entry, reason: str) -> ConfigError:
    return ConfigError(f"{entry.written}: {reason}", file=entry.file, line=entry.line)
