"""A SASL login whose password or secret is in a file or an Airflow connection, and can be read again from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from srm_common.domain.cluster import ClusterSettings, LoginSettings, OauthClient
from srm_common.domain.settings.layers import Entry, Scope
from srm_common.errors import ConfigError
from srm_common.settings_files.connections.airflow_connections import KeptConnection
from srm_common.settings_files.connections.login_keys import login_settings
from srm_common.settings_files.sources.properties import read_properties
from srm_common.settings_files.sources.providers import Providers


@dataclass(frozen=True)
class WrittenLogin:
    """The entries about the login of one cluster, with their references. Picklable, hashable; ``repr`` shows no secret.

    Values of environment variables are taken along: the process that reads again may have another environment. Those of
    an Airflow connection are not.
    """

    alias: str
    entries: tuple[tuple[str, Entry], ...]
    providers: Providers = field(repr=False, compare=False)
    #: What some entries come from, whose values are empty then.
    connection: KeptConnection | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        settings: ClusterSettings,
        written: Mapping[str, Entry],
        providers: Providers,
        connection: KeptConnection | None = None,
    ) -> Self | None:
        """None for a login without a secret of its own (TLS alone, Kerberos, whose files are read at each login), and
        where nothing of it can be read again.

        Args:
            written: the entries of the cluster, by key.
            providers: what resolves their references.
            connection: what some entries may come from.
        """
        login = settings.login.kafka_python
        if "sasl_plain_password" not in login and not isinstance(login.get("sasl_oauth_token_provider"), OauthClient):
            return None
        entries = {key: entry for key, entry in written.items() if key.startswith(("sasl.", "https."))}
        if connection is not None:
            its = {key: replace(entry, value="") for key, entry in entries.items() if entry.file == connection.place}
            entries |= its
            connection = connection if its else None
        if connection is None and not any(entry.line for entry in entries.values()):
            return None
        texts = [entry.value for entry in entries.values()]
        return cls(settings.alias, tuple(sorted(entries.items())), providers.again(texts), connection)

    @property
    def place(self) -> str:
        """The files that references name, or where there are none, those with the settings; the Airflow connection."""
        texts = [entry.value for _, entry in self.entries if entry.line]
        named = [file for text in texts for file in self.providers.files(text)]
        named = named or [entry.file for _, entry in self.entries if entry.line]
        if self.connection is not None:
            named.append(self.connection.place)
        return ", ".join(dict.fromkeys(named))

    @property
    def is_quick(self) -> bool:
        """Airflow may have to ask a secrets backend."""
        return self.connection is None

    def read(self) -> LoginSettings:
        """The login as the files, and Airflow, have it now.

        Raises:
            ConfigError: a file, the connection or an entry is missing, or the login is incomplete.
        """
        providers = self.providers.again(entry.value for _, entry in self.entries)
        files: dict[str, dict[str, str]] = {}
        kept = {} if self.connection is None else self.connection.entries()
        entries = {key: self._again(key, entry, files, kept) for key, entry in self.entries}
        return login_settings(
            self.alias, entries, lambda entry: providers.resolve(entry) if entry.line else entry.value
        )

    def _again(self, key: str, entry: Entry, files: dict[str, dict[str, str]], kept: Scope) -> Entry:
        if self.connection is not None and entry.file == self.connection.place:
            if key not in kept:
                raise ConfigError(f"{key} is no longer there", file=entry.file)
            return kept[key]
        if not entry.line or any(True for _ in self.providers.files(entry.value)):
            return entry
        if entry.file not in files:
            files[entry.file] = {found.key: found.value for found in read_properties(Path(entry.file))}
        if entry.written not in files[entry.file]:
            raise ConfigError(f"{entry.written} is no longer there", file=entry.file)
        return replace(entry, value=files[entry.file][entry.written])
