"""The login that the connections of a cluster use now: that of the settings, until it is refused and its source has
another one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from srm_common.domain.cluster import ClusterSettings, LoginSettings, LoginSource, OauthClient
from srm_common.errors import ConfigError
from srm_common.kafka.client.logins.client_credentials import ClientCredentials

#: The pause before a refused login is tried again where its source has no other: a broker may count wrong passwords
#: against the user.
_AGAIN_SECONDS = 5.0
#: Whoever comes so soon after another one who has read the source takes what that one has found.
_READ_SECONDS = 1.0
#: How long a login that was accepted before may be refused: a change reaches the brokers first, or the file.
PATIENCE_SECONDS = 120.0


class CurrentLogin:
    """The login that all connections of this process to one cluster use. Thread-safe.

    Invariant: it is replaced only when a broker has refused it, whatever its source has by then. So it does not matter
    whether the brokers or the files get a new password first.
    """

    def __init__(self, source: LoginSource, given: LoginSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._clock = clock
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._read_at = float("-inf")
        self._login = given
        self._arguments: dict[str, Any] | None = None
        #: Whether a broker accepted this one or one before it, and since when none has.
        self._taken = False
        self._refused_since: float | None = None
        self._refused_at = 0.0
        self._unreadable = ""

    @property
    def login(self) -> LoginSettings:
        """The login to use now."""
        return self._login

    def arguments(self) -> tuple[LoginSettings, dict[str, Any]]:
        """The login, and the arguments by which kafka-python's connections log in."""
        with self._lock:
            if self._arguments is None:
                found = dict(self._login.kafka_python)
                client = found.get("sasl_oauth_token_provider")
                if isinstance(client, OauthClient):
                    found["sasl_oauth_token_provider"] = ClientCredentials(client)
                self._arguments = found
            return self._login, dict(self._arguments)

    @property
    def place(self) -> str:
        """Where it comes from, for messages."""
        return self._source.place

    @property
    def doubtful(self) -> bool:
        """Whether it was refused: :meth:`look_again` comes before the next attempt."""
        return self._refused_since is not None

    @property
    def _may_change(self) -> bool:
        """Whether a login that is refused now was accepted a short while ago."""
        since = self._refused_since
        return self._taken and since is not None and self._clock() - since < PATIENCE_SECONDS

    def look_again(self) -> bool:
        """Read the source of a refused login again; blocks. Returns whether to try now: a login that was accepted
        before pauses between attempts; any other is tried at once, so that the refusal shows."""
        changed = self._changed()
        return changed or not self._may_change or self._clock() - self._refused_at >= _AGAIN_SECONDS

    def taken(self, login: LoginSettings) -> None:
        """A broker accepted ``login``."""
        with self._lock:
            if login == self._login:
                self._taken, self._refused_since = True, None

    def refused(self, login: LoginSettings) -> bool:
        """A broker refused ``login``; returns whether another attempt may succeed soon. Does not block: a source that
        is not quick is read before the next attempt, of which there is one at least."""
        with self._lock:
            if login != self._login:
                return True  # another connection knows a newer one already
            self._refused_at = self._clock()
            if self._refused_since is None:
                self._refused_since = self._refused_at
            was_read = self._read_at >= self._refused_since
        if self._may_change:
            return True
        return self._changed() if self._source.is_quick else not was_read

    @property
    def unreadable(self) -> str:
        """Why its source could not be read after the last refusal, as a sentence; empty where it could."""
        return self._unreadable

    def _changed(self) -> bool:
        """Whether the source has another login, which is then the current one."""
        before = self._login
        with self._reading:
            if self._login != before:
                return True
            if self._clock() - self._read_at < _READ_SECONDS and not self._source.is_quick:
                return False
            try:
                settings = self._source.read()
            except ConfigError as error:
                self._unreadable = (
                    f"a new one takes effect with the next task, as it cannot be read again here: {error}"
                )
                return False
            finally:
                self._read_at = self._clock()
        with self._lock:
            self._unreadable = ""
            if settings == self._login:
                return False
            self._login, self._arguments, self._refused_at = settings, None, 0.0
            return True


_known: dict[tuple[LoginSource, frozenset[tuple[str, str]]], CurrentLogin] = {}
_known_lock = threading.Lock()


def current_login(cluster: ClusterSettings) -> CurrentLogin | None:
    """The login of the cluster's connections in this process; None where its source cannot be read again."""
    source = cluster.login_source
    if source is None:
        return None
    given = cluster.login
    with _known_lock:
        return _known.setdefault((source, frozenset(given.confluent.items())), CurrentLogin(source, given))


def with_current_login(cluster: ClusterSettings) -> ClusterSettings:
    """The same settings with the current login, for clients that cannot read it themselves."""
    current = current_login(cluster)
    login = cluster.login if current is None else current.login
    return replace(
        cluster,
        confluent={**cluster.confluent, **login.confluent},
        kafka_python={**cluster.kafka_python, **login.kafka_python},
        clients={client: with_current_login(settings) for client, settings in cluster.clients.items()},
    )


def taken_elsewhere(cluster: ClusterSettings) -> None:
    """Another process has logged in with these settings: from now on a refusal means a change, not a mistake."""
    current = current_login(cluster)
    if current is not None and not current.doubtful:
        current.taken(current.login)
