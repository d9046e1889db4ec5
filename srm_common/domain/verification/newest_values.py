"""Compares a compacted copy with its source by meaning: the newest value of each key.

Cleaners of both sides remove older values at their own time, so that neither log holds what the other does. A consumer
that reads either side completely must end up with the same values, up to what is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple

from srm_common.domain.verification.differences import Difference, DifferenceKind, Findings, NotProved
from srm_common.domain.verification.named_keys import MOST_SHOWN_BYTES, NamedKeys, key_digest

_DIGEST_BYTES = 16
#: Of a key's digest, to tell its class: enough for more classes than any log needs.
_CLASS_BYTES = 4


class KeyedRecord(NamedTuple):
    """``content`` is value, headers and timestamp; None for a tombstone."""

    offset: int
    key: bytes
    content: bytes | None


class NewestValues:
    """Of the keys of one class: a 16-byte digest of each, where its newest value lies, and a digest of that.

    Args:
        number, classes: which keys, of how many classes, so that memory does not depend on the number of keys: the log
            is read once for each.
        show: keys are kept as well, the long ones cut, to be shown.
    """

    def __init__(self, number: int, classes: int, *, show: bool = False) -> None:
        self._number, self._classes = number, classes
        self._found: dict[bytes, tuple[int, bytes]] = {}
        self._show = show
        #: By their digests, where they are to be shown.
        self.keys: dict[bytes, bytes] = {}

    def __len__(self) -> int:
        return len(self._found)

    def take(self, records: Iterable[KeyedRecord]) -> None:
        """The log's next records."""
        for offset, key, content in records:
            digest = key_digest(key)
            if int.from_bytes(digest[:_CLASS_BYTES]) % self._classes == self._number:
                value = b"" if content is None else blake2b(content, digest_size=_DIGEST_BYTES).digest()
                self._found[digest] = offset, value
                if self._show:
                    self.keys[digest] = key[:MOST_SHOWN_BYTES]

    @property
    def found(self) -> Mapping[bytes, tuple[int, bytes]]:
        """By key: offset and value, which is empty for a tombstone."""
        return self._found


def compare_newest(
    source: NewestValues, copy: NewestValues, later: NewestValues, findings: Findings, keys: NamedKeys, *, expires: bool
) -> None:
    """Tell what is different, and count the keys that are not.

    Args:
        later: of what the source has behind the last offset that is known to be copied. Its keys are left out: what the
            source had before may be compacted, and the copy may be about to get the newer one.
        expires: whether retention also deletes records, of either side.
    """
    for key, (offset, value) in source.found.items():
        if key in later.found:
            continue
        there = copy.found.get(key)
        if there is not None and there[1] == value:
            findings.proved += 1
        elif there is None and expires and value:
            findings.leave(NotProved.RETENTION, 1)
        elif there is None and value:
            lost = Difference(DifferenceKind.LOST, -1, -1, offset, offset, f"of a key whose newest value is {offset}")
            findings.add(keys.with_key(lost, key, source.keys.get(key)))
        elif there is not None and not (expires and not value):
            detail = f"the newest value of its key at the source is that at offset {offset}"
            changed = Difference(DifferenceKind.CHANGED, there[0], there[0], offset, offset, detail)
            findings.add(keys.with_key(changed, key, source.keys.get(key)))
    for key, (offset, value) in copy.found.items():
        if key in source.found or not value or key in later.found:
            continue
        if expires:
            findings.leave(NotProved.SOURCE_RETENTION, 1)
        else:
            detail = "the source does not have its key, or not any more"
            foreign = Difference(DifferenceKind.FOREIGN, offset, offset, detail=detail)
            findings.add(keys.with_key(foreign, key, copy.keys.get(key)))
