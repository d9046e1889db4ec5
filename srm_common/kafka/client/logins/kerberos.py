"""Logins by Kerberos (GSSAPI, RFC 4752) for kafka-python, with tickets from a keytab or a ticket cache.

kafka-python uses the process's default credentials, one principal for all clusters, and waits for the KDC in its event
loop. Here each cluster has its own credentials, and everything that may wait for a KDC is done in a thread, before the
login begins: a :class:`Ticket` holds the first token for the broker, and the rest of the exchange needs no KDC.
"""

from __future__ import annotations

import hashlib
import importlib.util
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srm_common.domain.cluster import KerberosLogin
from srm_common.errors import AccessDenied, ConfigError, UnreachableCluster, installing
from srm_common.kafka.client.library import Errors, SaslMechanismGSSAPI, register_sasl_mechanism

if TYPE_CHECKING:
    import gssapi

#: MIT's codes (krb5_err.et) for a KDC that cannot be found or does not respond, as unsigned 32 bits.
_KDC_AWAY = frozenset(code % (1 << 32) for code in (-1765328228, -1765328230))
#: KRB5KRB_AP_ERR_TKT_EXPIRED.
_EXPIRED = -1765328352 % (1 << 32)
#: KRB5KDC_ERR_S_PRINCIPAL_UNKNOWN.
_UNKNOWN_SERVER = -1765328377 % (1 << 32)

#: How often tickets that came from a keytab were discarded in this process, by their cache in its memory.
_given_up: Counter[str] = Counter()
_lock = threading.Lock()


def require_gssapi(alias: str) -> None:
    """Raises :class:`ConfigError` where the package gssapi is missing; ``alias`` is the cluster that needs it."""
    if importlib.util.find_spec("gssapi") is None:
        raise ConfigError(
            f"cluster '{alias}' needs a login by Kerberos, for which the Python package gssapi is not installed here; "
            f"install it with: {installing('gssapi')} (docs/security.md)"
        )


class Ticket:
    """What one login to one broker needs: the security context and its first token."""

    def __init__(self, target: str, context: gssapi.SecurityContext, token: bytes) -> None:
        self.target = target
        self.context = context
        self.token = token


class KerberosTickets:
    """Makes tickets for the brokers of one cluster. Thread-safe.

    A keytab yields a ticket in the memory of this process, which is replaced before it expires (the client keytab of
    MIT Kerberos). A ticket cache is read each time, so that whoever renews it (``kinit -R``, ``k5start``, sssd) need
    not notify this process. So each login, re-authentication (KIP-368) included, uses the ticket of that moment.
    """

    def __init__(self, login: KerberosLogin, alias: str) -> None:
        self._login = login
        self._alias = alias
        name = f"{login.principal}\n{login.keytab}"
        self._memory = f"MEMORY:srm-{hashlib.sha256(name.encode()).hexdigest()[:24]}"

    def ticket(self, host: str) -> Ticket:
        """Blocks while the KDC is asked. ``host`` is the broker's, as the client knows it.

        Raises:
            AccessDenied: the KDC refuses this login, or the keytab or the ticket cache does not fit it.
            UnreachableCluster: no KDC responded.
        """
        import gssapi  # takes a while, and needs the system's library

        target = f"{self._login.service_name}@{host}"
        given_up = _given_up[self._memory]
        try:
            try:
                return self._ask(target, given_up)
            except gssapi.raw.GSSError as error:
                if error.min_code != _EXPIRED or self._login.keytab is None:
                    raise
                # A keytab yields a new ticket before the old one expires. Where that fails, GSSAPI continues with the
                # old one and does not say why. An attempt without it does: the KDC is down, or the principal is gone.
                with _lock:
                    _given_up[self._memory] = max(_given_up[self._memory], given_up + 1)
                return self._ask(target, given_up + 1)
        except gssapi.raw.GSSError as error:
            raise self._fault(error, host) from error

    def _ask(self, target: str, given_up: int) -> Ticket:
        import gssapi

        name = gssapi.Name(target, name_type=gssapi.NameType.hostbased_service)
        context = gssapi.SecurityContext(
            name=name.canonicalize(gssapi.MechType.kerberos), creds=self._credentials(given_up), usage="initiate"
        )
        return Ticket(target, context, context.step(None) or b"")

    def _credentials(self, given_up: int) -> gssapi.Credentials:
        import gssapi

        login = self._login
        own = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal) if login.principal else None
        if login.keytab is not None:
            store: dict[bytes | str, bytes | str] = {
                "client_keytab": f"FILE:{login.keytab}",
                "ccache": f"{self._memory}-{given_up}",
            }
            return gssapi.Credentials(name=own, usage="initiate", store=store)
        if login.ticket_cache is not None:
            cache = login.ticket_cache
            return gssapi.Credentials(
                name=own, usage="initiate", store={"ccache": cache if ":" in cache else f"FILE:{cache}"}
            )
        return gssapi.Credentials(name=own, usage="initiate")

    def _fault(self, error: Any, host: str) -> Exception:
        login = self._login
        who = f" as {login.principal}" if login.principal else ""
        text = f"the login by Kerberos{who} to {login.service_name}@{host} of cluster '{self._alias}' failed"
        reason = "; ".join(error.get_all_statuses(error.min_code, False)) or str(error)
        if error.min_code in _KDC_AWAY:
            return UnreachableCluster(f"{text}: {reason}; check krb5.conf and the KDC")
        if error.min_code == _UNKNOWN_SERVER:
            return AccessDenied(f"{text}: {reason}; check sasl.kerberos.service.name and the names of the brokers")
        if login.keytab is None:
            cache = login.ticket_cache or "that Kerberos uses by default"
            return AccessDenied(f"{text}: {reason}; check that the ticket cache {cache} was filled here (kinit)")
        try:
            Path(login.keytab).open("rb").close()
        except OSError as fault:
            return AccessDenied(f"{text}: the keytab {login.keytab} cannot be read on this host: {fault.strerror}")
        if "credential" in reason.lower():
            # MIT then looks for a ticket, which is not there either.
            reason = f"the keytab {login.keytab} has no key for this principal"
        return AccessDenied(f"{text}: {reason}; check the principal and its keytab {login.keytab} (klist -kt)")


class _Gssapi(SaslMechanismGSSAPI):  # type: ignore[misc]
    """The library's exchange, begun with a ticket that exists already."""

    def __init__(self, **config: Any) -> None:
        ticket: Ticket = config["sasl_oauth_token_provider"]
        self._is_done = False
        self._is_authenticated = False
        self.auth_id = ticket.target
        self._client_ctx = ticket.context
        self._next_token = ticket.token

    def receive(self, auth_bytes: bytes) -> None:
        """Raises the library's KafkaConnectionError where the ticket expires meanwhile, or the broker's token is not
        valid: the next connection gets another ticket, or the reason why there is none."""
        import gssapi

        try:
            super().receive(auth_bytes)
        except gssapi.raw.GSSError as error:
            raise Errors.KafkaConnectionError(f"the exchange with {self.auth_id} by GSSAPI ended: {error}") from error

    def auth_details(self) -> str:
        # The library asks the context, which no longer answers once its ticket has expired.
        return f"logged into {self.auth_id} by SASL/GSSAPI"


register_sasl_mechanism("GSSAPI", _Gssapi, overwrite=True)
