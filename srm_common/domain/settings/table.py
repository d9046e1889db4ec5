"""Every key of the configuration file that describes flows, with type, unit, default and meaning.

docs/configuration.md is written from this table.
"""

from __future__ import annotations

from srm_common.domain.settings.ineffective_keys import without_effect_keys
from srm_common.domain.settings.installation_keys import file_keys, peer_keys, prometheus_keys, store_keys
from srm_common.domain.settings.key import Key, Level
from srm_common.domain.settings.offset_keys import offsets_keys, state_keys
from srm_common.domain.settings.run_keys import alarm_keys, copying_keys, metrics_topic_keys, scheduling_keys
from srm_common.domain.settings.schema_keys import schema_keys
from srm_common.domain.settings.topic_keys import selection_keys, topics_keys

KEYS: tuple[Key, ...] = (
    *file_keys(),
    *selection_keys(),
    *topics_keys(),
    *schema_keys(),
    *offsets_keys(),
    *state_keys(),
    *copying_keys(),
    *scheduling_keys(),
    *alarm_keys(),
    *metrics_topic_keys(),
    *store_keys(),
    *prometheus_keys(),
    *peer_keys(),
    *without_effect_keys(),
)
BY_NAME: dict[str, Key] = {name: key for key in KEYS for name in (key.name, *key.legacy)}
#: Further spellings, by level, of keys that act.
ALSO: dict[tuple[Level, str], Key] = {place: key for key in KEYS for place in key.also}
#: Settings of Kafka's clients that act as one of these keys, by their names without a client's prefix.
CLIENT_SETTINGS: dict[str, Key] = {
    name.removeprefix("source.consumer.").removeprefix("target.producer.").removeprefix("admin."): key
    for _, name in ALSO
    for key in [ALSO[_, name]]
    if name.startswith(("source.consumer.", "target.producer.", "admin."))
}
FLOW_KEYS: tuple[Key, ...] = tuple(key for key in KEYS if key.field is not None)
# Longest first: ``key.converter.*`` before anything shorter that it also begins with.
_FAMILIES = sorted((key for key in KEYS if key.is_family), key=lambda key: -len(key.name))


def known_key(name: str) -> Key | None:
    """The key called ``name``, by its older names and by its family's too, or None."""
    found = BY_NAME.get(name)
    if found is not None:
        return found
    return next((family for family in _FAMILIES if name.startswith(family.name[:-1])), None)
