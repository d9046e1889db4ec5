"""Whom alarms are told by: any notifier of Airflow or of one of its providers, named in the configuration file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from srm_common.errors import ConfigError

#: What the keys of notifiers begin with: ``alarm.notifier.<name>.class`` and ``alarm.notifier.<name>.<argument>``.
KEYS = "alarm.notifier."
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


@dataclass(frozen=True, slots=True)
class AlarmNotifier:
    """``path`` is the dotted path of a class, ``arguments`` what it is made with, which may be secret."""

    name: str
    path: str
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)


def alarm_notifiers(names: Iterable[str], settings: Mapping[str, str]) -> tuple[AlarmNotifier, ...]:
    """The notifiers called ``names``, in their order. ``settings`` are all keys below :data:`KEYS`, in full.

    Values that are JSON of something else than a text (``["a@b", "c@d"]``, ``true``, ``5``) are taken as that, all
    others as the text that they are. The class is not imported, since a provider need not be installed where the file
    is read.

    Raises:
        ConfigError: a name has no class, or one that cannot be a dotted path; the message names the key.
    """
    return tuple(_notifier(name, settings) for name in dict.fromkeys(names))


def _notifier(name: str, settings: Mapping[str, str]) -> AlarmNotifier:
    prefix = f"{KEYS}{name}."
    arguments = {key[len(prefix) :]: value for key, value in settings.items() if key.startswith(prefix)}
    path = arguments.pop("class", "").strip()
    if not path:
        raise ConfigError(f"names '{name}', which has no {prefix}class; write the dotted path of an Airflow notifier")
    if not _DOTTED.fullmatch(path):
        raise ConfigError(f"names '{name}', whose {prefix}class = {path} is no dotted path of a class")
    return AlarmNotifier(name, path, {key: _value(text.strip()) for key, text in arguments.items()})


def _value(text: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(found, str) else found
