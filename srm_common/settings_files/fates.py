"""The effect of other tools' keys here: a key works, works under another name, has no effect, or stops the flow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from srm_common.domain.settings.ineffective_keys import CLIENT_KEYS
from srm_common.domain.settings.other_tools import (
    ADMIN,
    CONNECTIONS,
    CONSUMER,
    KIP_382,
    MIRROR_MAKER,
    PRODUCER,
    SRM,
    WORKER,
)
from srm_common.domain.settings.table import ALSO, CLIENT_SETTINGS, known_key
from srm_common.settings_files.connections.client_keys import CONNECTION_KEYS, NO_EFFECT
from srm_common.settings_files.connections.login_keys import REFUSED

_JAVA = "It configures TLS or authentication in Java."
_CLIENTS = {"consumer": CONSUMER, "producer": PRODUCER, "admin": ADMIN}


class Fate(StrEnum):
    """What a key does here."""

    ACTS = "works"
    RENAMED = "works under another name"
    NOTHING = "no effect"
    REFUSED = "stops the flow"


@dataclass(frozen=True, slots=True)
class KeyFate:
    """``names`` are the ways to write the key; ``told``: runs report that it has no effect, since it would have
    changed the copy or its cost."""

    names: tuple[str, ...]
    of: str
    fate: Fate
    why: str
    told: bool = False


def fates() -> Iterator[KeyFate]:
    """Every key that other tools document; see :mod:`srm_common.domain.settings.other_tools`."""
    for of, names in (
        ("MirrorMaker 2", MIRROR_MAKER),
        ("Connect's workers", WORKER),
        ("Streams Replication Manager", SRM),
        ("KIP-382", KIP_382),
        ("Kafka's clients", CONNECTIONS),
    ):
        for name in sorted(names):
            fate, why, told = _fate(name)
            yield KeyFate((name,), of, fate, why, told)
    for name in sorted({*CONSUMER, *PRODUCER, *ADMIN}):
        clients = [client for client, names in _CLIENTS.items() if name in names]
        fate, why, told = _client_fate(name, clients)
        yield KeyFate(tuple(f"{client}.{name}" for client in clients), "Kafka's clients", fate, why, told)


def _client_fate(name: str, clients: list[str]) -> tuple[Fate, str, bool]:
    acting = CLIENT_SETTINGS.get(name)
    if acting is not None:
        places = [where for _, where in ALSO if ALSO[_, where] is acting and where.endswith(name)]
        if acting.name.endswith(name):
            return Fate.ACTS, acting.doc, False
        client = next(client for client in clients if any(where.startswith(f"{client}.") for where in places))
        return Fate.RENAMED, f"`{acting.name}`; as a setting of the {client} it works, too.", False
    if name in CONNECTION_KEYS:
        return _fate(name)
    key = CLIENT_KEYS[name]
    return Fate.NOTHING, key.note, key.matters


def _fate(name: str) -> tuple[Fate, str, bool]:
    if name in REFUSED:
        return Fate.REFUSED, REFUSED[name], False
    if name in NO_EFFECT:
        return Fate.NOTHING, _JAVA, False
    if name in CONNECTION_KEYS:
        return Fate.ACTS, "As a connection setting, see Clusters.", False
    key = known_key(name)
    if key is None:
        raise LookupError(name)
    if key.note:
        return Fate.NOTHING, key.note, key.matters
    if name != key.name and not key.is_family:
        return Fate.RENAMED, f"`{key.name}`; the older name works, too.", False
    return Fate.ACTS, "See above.", False
