"""How a difference identifies its record: by a digest of the key, since keys may be personal data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b

from srm_common.domain.verification.differences import Difference

#: A key that is shown, and kept for that, is cut behind so many bytes.
MOST_SHOWN_BYTES = 200
_DIGEST_BYTES = 16


def key_digest(key: bytes) -> bytes:
    """BLAKE2b of a key, 16 bytes."""
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()


@dataclass(frozen=True)
class NamedKeys:
    """``key_of``: the key in a record's content, None where it has none. ``show``: differences have the key itself,
    too, for users who asked to see it; nothing that is kept or sent contains it."""

    key_of: Callable[[bytes], bytes | None]
    show: bool = False

    def named(self, difference: Difference, *contents: bytes) -> Difference:
        """A difference with the key of the record that it is about: the first of these that has one."""
        key = next((key for key in map(self.key_of, contents) if key is not None), None)
        return difference if key is None else self.with_key(difference, key_digest(key), key)

    def with_key(self, difference: Difference, digest: bytes, key: bytes | None) -> Difference:
        """The same, where the digest is known."""
        shown = None if key is None or not self.show else key[:MOST_SHOWN_BYTES]
        return replace(difference, key=digest.hex(), shown_key=shown)
