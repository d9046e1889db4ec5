"""The files of a configuration: one, several, or all ``*.properties`` of a folder, read as one list of entries."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from srm_common.domain.flow import ARROW
from srm_common.domain.patterns.name_filter import split_list
from srm_common.domain.settings.layers import Aliases, Entry
from srm_common.errors import ConfigError
from srm_common.settings_files.sources.properties import Property, read_properties

# Kafka's Topic.LEGAL_CHARS: an alias is a part of topic names.
_NOT_IN_TOPIC_NAMES = re.compile(r"[^a-zA-Z0-9._-]")


def configuration_files(path: Path) -> tuple[Path, ...]:
    """The files that ``path`` stands for, in the order of reading.

    ``path`` is a file; a folder, whose ``*.properties`` are read by name; or several of both, separated as in PATH.
    Raises :class:`ConfigError` when there is none.
    """
    if path.is_file():
        return (path,)
    files: list[Path] = []
    for part in str(path).split(os.pathsep):
        place = Path(part)
        if not part.strip():
            continue
        if place.is_dir():
            inside = sorted(found for found in place.glob("*.properties") if found.is_file())
            if not inside:
                raise ConfigError("the folder has no *.properties files", file=part)
            files += inside
        elif place.exists():
            files.append(place)
        else:
            raise ConfigError("there is no such file", file=part)
    if not files:
        raise ConfigError("there is no such file", file=str(path))
    return tuple(dict.fromkeys(files))


def read_entries(files: Iterable[Path]) -> tuple[Entry, ...]:
    """Every entry of the files in order, repeated keys of one file included.

    Raises:
        ConfigError: a file cannot be read, the clusters are missing or misnamed, or two files have different
            values for one key: neither of them is the later one.
    """
    read = {str(file): read_properties(file) for file in files}
    listed = next(
        (
            (file, found)
            for file, properties in read.items()
            for found in reversed(properties)
            if found.key == "clusters"
        ),
        None,
    )
    if listed is None or not listed[1].value.strip():
        file, line = (listed[0], listed[1].line) if listed else (next(iter(read), None), None)
        raise ConfigError(_no_clusters(read), file=file, line=line)
    aliases = _aliases(listed[1], listed[0])
    known = Aliases(aliases)
    entries = tuple(_entry(found, file, known) for file, properties in read.items() for found in properties)
    if len(read) > 1:
        _refuse_differences(entries)
    return entries


def listed_aliases(entries: Iterable[Entry]) -> tuple[str, ...]:
    """The value of ``clusters``, which :func:`read_entries` has checked."""
    last = [entry for entry in entries if entry.written == "clusters"][-1]
    return split_list(last.value)


def _no_clusters(read: dict[str, list[Property]]) -> str:
    if not any(read.values()):
        return "the file is empty, so there are no clusters; start with 'clusters = a, b'"
    return "the file has no clusters; start with 'clusters = a, b'"


def _aliases(listed: Property, file: str) -> tuple[str, ...]:
    aliases = split_list(listed.value)
    times = Counter(aliases)
    for alias in aliases:
        if not alias or ARROW in alias:
            raise ConfigError(f"'{alias}' is not a cluster alias", file=file, line=listed.line)
        wrong = _NOT_IN_TOPIC_NAMES.search(alias)
        if wrong is not None:
            raise ConfigError(
                f"'{alias}' is not a cluster alias: it becomes part of topic names, which take letters, digits, "
                f"'.', '_' and '-', but not '{wrong[0]}'",
                file=file,
                line=listed.line,
            )
        if times[alias] > 1:
            raise ConfigError(f"cluster alias '{alias}' is listed twice", file=file, line=listed.line)
    return aliases


def _entry(found: Property, file: str, aliases: Aliases) -> Entry:
    # 'A -> B.enabled = true': a properties key ends at the first blank, so the arrow has landed in the value.
    if found.key in aliases and found.value.startswith(ARROW):
        right = found.value[len(ARROW) :].lstrip()
        alias = aliases.before(right, ".=: ")
        if alias is not None:
            rest = right[len(alias) :]
            ends = [at for at in (rest.find(mark) for mark in "=:") if at >= 0]
            if ends:
                at = min(ends)
                written = f"{found.key}{ARROW}{alias}{rest[:at].strip()}"
                return Entry(written, rest[at + 1 :].strip(), file, found.line)
    return Entry(found.key, found.value, file, found.line)


def _refuse_differences(entries: Iterable[Entry]) -> None:
    last: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        last.setdefault(entry.written, {})[entry.file] = entry
    for key, by_file in last.items():
        first, *others = by_file.values()
        for other in others:
            if other.value != first.value:
                raise ConfigError(
                    f"{key} has one value in {first.place} and another here; keep one of them",
                    file=other.file,
                    line=other.line,
                )
