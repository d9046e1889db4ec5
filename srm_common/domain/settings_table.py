"""Every key of the configuration file that describes flows: the one place for types, units, defaults and meanings.

docs/configuration.md is written from this table.
"""

from __future__ import annotations

from srm_common.domain.settings import Key
from srm_common.domain.settings_of_offsets import offsets_keys, state_keys
from srm_common.domain.settings_of_runs import copying_keys, scheduling_keys, without_effect_keys
from srm_common.domain.settings_of_topics import selection_keys, topics_keys

KEYS: tuple[Key, ...] = (
    *selection_keys(),
    *topics_keys(),
    *offsets_keys(),
    *state_keys(),
    *copying_keys(),
    *scheduling_keys(),
    *without_effect_keys(),
)
BY_NAME: dict[str, Key] = {name: key for key in KEYS for name in (key.name, *key.legacy)}
FLOW_KEYS: tuple[Key, ...] = tuple(key for key in KEYS if key.field is not None)
