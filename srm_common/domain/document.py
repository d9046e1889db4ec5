"""Versioned JSON documents: runs and reports as topics hold them, also read by other versions of this software."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from srm_common.errors import CorruptRecord


class NewerDocument(ValueError):
    """A value that this version does not know, where a newer one may have new ones."""


@contextmanager
def reading(document: Mapping[str, Any], what: str, version: int) -> Iterator[None]:
    """Around code that takes values out of ``document``, which is to be of ``version``.

    Args:
        what: the document, for errors, e.g. ``"the run record"``.

    Raises:
        CorruptRecord: it has another version, or is no such document: what the code found wrong.
    """
    try:
        found = document["version"]
        if found != version:
            raise CorruptRecord(f"{what} has version {found}; only {version} is known")
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise CorruptRecord(f"{what} cannot be read: {error!r}") from error


def known_fields(kind: type[Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of ``document`` for which the dataclass ``kind`` has a field; the rest is from a newer minor
    version."""
    return {field.name: document[field.name] for field in fields(kind) if field.name in document}
