"""Airflow connections as connection settings of a cluster: ``<alias>.connection = kafka_east``.

A connection's extra holds librdkafka settings, as for Airflow's Kafka provider; its host and port give the address, its
login and password the user. Where a process finds it:

* the variable ``AIRFLOW_CONN_<ID>``, as everywhere in Airflow: the only way in the Spark driver, to which
  :mod:`srm_common.airflow_bridge.spark_job_operator` hands it over in a file, and again when its login is refused, or
  which has it in its own environment where it runs on another machine; and the easy way for ``srm-control``;
* in a task, Airflow's own lookup (secrets backends, then the database by its API);
* elsewhere with an Airflow home: the same lookup, in Airflow's database.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from srm_common.account import home_folder
from srm_common.domain.settings.layers import Entry, Scope
from srm_common.errors import ConfigError
from srm_common.settings_files.sources.secret_variables import variable, variable_again

VARIABLE_PREFIX = "AIRFLOW_CONN_"
_DEFAULT_PORT = 9092
_PAUSES_SECONDS = (1.0, 2.0)
_in_vain: set[str] = set()
_JAVA_NAMES = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}


@dataclass(frozen=True, slots=True)
class AirflowConnection:
    """One connection as Airflow keeps it. ``repr`` shows no credentials."""

    conn_id: str
    conn_type: str = "kafka"
    host: str | None = None
    port: int | None = None
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)

    @property
    def place(self) -> str:
        return f"Airflow connection {self.conn_id}"

    @property
    def variable(self) -> str:
        """The environment variable that carries it."""
        return variable_name(self.conn_id)

    @classmethod
    def parse(cls, conn_id: str, text: str) -> AirflowConnection:
        """Read the value of an ``AIRFLOW_CONN_`` variable: JSON or a URI. Raises :class:`ConfigError`."""
        try:
            return _from_json(conn_id, text) if text.lstrip().startswith("{") else _from_uri(conn_id, text)
        except (ValueError, TypeError, RecursionError):
            # Not the parser's own words: they would repeat what may be a password.
            raise ConfigError(
                f"the value of {variable_name(conn_id)} is neither JSON nor a URI of an Airflow connection"
            ) from None

    def to_json(self) -> str:
        """As the value of an ``AIRFLOW_CONN_`` variable."""
        values = {
            "conn_type": self.conn_type,
            "host": self.host,
            "port": self.port,
            "login": self.login,
            "password": self.password,
            "extra": dict(self.extra) or None,
        }
        return json.dumps({key: value for key, value in values.items() if value is not None})

    def entries(self) -> Scope:
        """Its settings by the names of Java's clients. Raises :class:`ConfigError`."""
        settings: dict[str, str] = {}
        for key, value in self.extra.items():
            if value is not None:
                text = str(value).lower() if isinstance(value, bool) else str(value)
                settings[_JAVA_NAMES.get(key, key)] = text
        if settings.pop("enable.ssl.certificate.verification", "true").lower() == "false":
            raise ConfigError(
                "enable.ssl.certificate.verification=false is not available; name the authority in ssl.ca.location",
                file=self.place,
            )
        if self.host:
            settings.setdefault("bootstrap.servers", self._address())
        if self.login is not None and self.login != "":
            if "security.protocol" not in settings:
                raise ConfigError(
                    "has a login, but its extra does not say how to log in; add security.protocol (SASL_SSL or "
                    "SASL_PLAINTEXT) and sasl.mechanism",
                    file=self.place,
                )
            settings.setdefault("sasl.username", self.login)
            settings.setdefault("sasl.password", self.password or "")
        return {key: Entry(key, value, self.place, 0) for key, value in settings.items()}

    def _address(self) -> str:
        servers = [server.strip() for server in (self.host or "").split(",") if server.strip()]
        # An address of IPv6 may come without the brackets that tell its colons from the one before a port.
        servers = [f"[{one}]" if one.count(":") > 1 and not one.startswith("[") else one for one in servers]
        return ",".join(
            server if server.rpartition(":")[2].isdecimal() else f"{server}:{self.port or _DEFAULT_PORT}"
            for server in servers
        )


Lookup = Callable[[str], AirflowConnection | None]


def variable_name(conn_id: str) -> str:
    """The environment variable of a connection, as Airflow names it."""
    return VARIABLE_PREFIX + conn_id.upper()


def from_environment(conn_id: str) -> AirflowConnection | None:
    """The connection as the environment has it, or the file that was handed over. Raises :class:`ConfigError` when its
    value cannot be read."""
    text = variable(variable_name(conn_id))
    return AirflowConnection.parse(conn_id, text) if text else None


def from_task(conn_id: str) -> AirflowConnection | None:
    """The connection as it is now for the task that started this process. Blocks for seconds. Raises
    :class:`ConfigError` where there is no such task, or it does not respond."""
    text = variable_again(variable_name(conn_id))
    return AirflowConnection.parse(conn_id, text) if text else None


@dataclass(frozen=True)
class KeptConnection:
    """An Airflow connection that may be changed while it is used. Holds no secret.

    Picklable; another process asks the task, if there is one, but never Airflow: a worker of Spark need not have its
    settings, nor the memory for it.
    """

    conn_id: str
    place: str
    look_up: Lookup

    @classmethod
    def of(cls, connection: AirflowConnection, lookup: Lookup) -> Self | None:
        """The one that ``lookup`` has found; None for a variable of this process's own environment."""
        if connection.variable in os.environ:
            return None
        return cls(connection.conn_id, connection.place, from_task if lookup is from_environment else lookup)

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, Lookup]]:
        return type(self), (self.conn_id, self.place, self.look_up if self.look_up is from_task else _not_here)

    def entries(self) -> Scope:
        """Its settings now. Raises :class:`ConfigError`."""
        found = self.look_up(self.conn_id)
        if found is None:
            raise ConfigError("is no longer found", file=self.place)
        return found.entries()


def _not_here(conn_id: str) -> NoReturn:
    raise ConfigError("is looked up where the settings were read", file=f"Airflow connection {conn_id}")


def from_airflow(conn_id: str) -> AirflowConnection | None:
    """The connection as the environment or this process's Airflow has it. Raises :class:`ConfigError`.

    Airflow is imported only where a connection is asked for and an Airflow home exists: the import alone takes seconds,
    and it would create a home where there is none.
    """
    connection = from_environment(conn_id)
    if connection is not None or not _has_airflow_home():
        return connection
    try:
        from airflow.models.connection import Connection
        from airflow.sdk import BaseHook
        from airflow.sdk.exceptions import AirflowNotFoundException
    except ImportError:
        return None
    # Airflow sets it in tasks; there the database is out of reach, but the API responds.
    in_a_task = hasattr(sys.modules.get("airflow.sdk.execution_time.task_runner"), "SUPERVISOR_COMMS")
    try:
        if in_a_task:
            kept = looked_up(conn_id, BaseHook.get_connection, AirflowNotFoundException)
        else:
            kept = Connection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException:
        return None
    except PermissionError as denied:
        raise ConfigError(
            f"Airflow keeps it from this process: {denied}", file=f"Airflow connection {conn_id}"
        ) from None
    return AirflowConnection(
        conn_id=conn_id,
        conn_type=kept.conn_type or "kafka",
        host=kept.host or None,
        port=kept.port or None,
        login=kept.login or None,
        password=kept.password or None,
        extra=_extra(conn_id, kept.extra),
    )


def looked_up(conn_id: str, get: Callable[[str], Any], not_found: type[Exception]) -> Any:
    """What ``get`` returns, which raises ``not_found`` also if Airflow's database or secrets backend does not answer
    for a moment: it is called a few times, unless this process has done so in vain before."""
    for pause in () if conn_id in _in_vain else _PAUSES_SECONDS:
        try:
            return get(conn_id)
        except not_found:
            time.sleep(pause)
    try:
        return get(conn_id)
    except not_found:
        _in_vain.add(conn_id)
        raise


def _has_airflow_home() -> bool:
    if "airflow" in sys.modules or os.environ.get("AIRFLOW_HOME"):
        return True
    home = home_folder()
    return home is not None and (home / "airflow" / "airflow.cfg").is_file()


def _extra(conn_id: str, extra: object) -> Mapping[str, Any]:
    if isinstance(extra, str) and extra.strip():
        try:
            extra = json.loads(extra)
        except (ValueError, RecursionError):
            raise ConfigError(
                "its extra is not JSON; write librdkafka settings as a JSON object",
                file=f"Airflow connection {conn_id}",
            ) from None
    if not extra:
        return {}
    if not isinstance(extra, Mapping):
        raise ConfigError("its extra is not a JSON object", file=f"Airflow connection {conn_id}")
    return extra


def _from_json(conn_id: str, text: str) -> AirflowConnection:
    values = json.loads(text)
    port = values.get("port")
    return AirflowConnection(
        conn_id=conn_id,
        conn_type=values.get("conn_type") or "kafka",
        host=_text(values.get("host")),
        port=int(port) if port not in (None, "") else None,
        login=_text(values.get("login")),
        password=_text(values.get("password")),
        extra=_extra(conn_id, values.get("extra")),
    )


def _text(value: object) -> str | None:
    """A part as text, also a password of digits that is written without quotes. Raises TypeError."""
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError("not text")
    return str(value)


def _from_uri(conn_id: str, text: str) -> AirflowConnection:
    parts = urlsplit(text.strip())
    if not parts.scheme and not parts.netloc:
        raise ValueError
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    whole = query.pop("__extra__", None)
    login, _, address = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    host, port = address, None
    if "," not in address:  # several addresses keep their own ports
        host, port = parts.hostname or "", parts.port
    return AirflowConnection(
        conn_id=conn_id,
        conn_type=parts.scheme or "kafka",
        host=unquote(host) or None,
        port=port,
        login=unquote(user) or None,
        password=unquote(password) or None,
        extra={**query, **_extra(conn_id, whole)},
    )
