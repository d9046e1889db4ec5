"""Keys that describe no flow but the installation: they stand in the file without a prefix."""

from __future__ import annotations

from typing import Any

from srm_common.domain.settings.key import BadValue
from srm_common.domain.settings.table import BY_NAME
from srm_common.errors import ConfigError
from srm_common.settings_files.configuration import Configuration
from srm_common.settings_files.flow_faults import at_entry
from srm_common.settings_files.providers import Providers


class TopKeys:
    """What a configuration says at its top level, typed, references to secrets replaced."""

    def __init__(self, configuration: Configuration) -> None:
        self.entries = configuration.layers.top
        self.providers = Providers.of(self.entries)

    def value(self, name: str) -> Any:
        """Typed; the default where the file has none, None where there is no default or the value is empty.

        Raises:
            ConfigError: the value cannot be used.
        """
        key, entry = BY_NAME[name], self.entries.get(name)
        text = key.default if entry is None else self.providers.resolve(entry).strip()
        if not text:
            return None
        try:
            return key.parse(text)
        except BadValue as error:
            raise self.fault(name, str(error)) from None

    def fault(self, name: str, reason: str) -> ConfigError:
        """About the key ``name``, with file and line where it stands in the file."""
        return at_entry(self.entries.get(name), reason)
