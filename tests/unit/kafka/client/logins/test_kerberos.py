"""The library's exchange by GSSAPI, where a ticket ends in the middle of it."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from srm_common.kafka.client.library import Errors
from srm_common.kafka.client.logins.kerberos import Ticket, _Gssapi

gssapi = pytest.importorskip("gssapi", reason="no Python package gssapi")


class _Ended:
    """A context whose ticket has ended; GSSAPI says so whatever it is asked."""

    complete = True

    def _refuse(self, *_: object) -> NoReturn:
        raise gssapi.raw.exceptions.ExpiredContextError(786432, 100001)

    unwrap = step = _refuse
    initiator_name = target_name = property(_refuse)


def exchange() -> Any:
    ended: Any = _Ended()
    ticket = Ticket("kafka@broker", ended, b"token")
    return _Gssapi(host="broker", sasl_oauth_token_provider=ticket)


def test_a_ticket_that_ends_in_the_exchange_ends_the_connection() -> None:
    with pytest.raises(Errors.KafkaConnectionError, match="the exchange with kafka@broker by GSSAPI ended: "):
        exchange().receive(b"from the broker")


def test_what_is_logged_of_a_login_asks_no_context() -> None:
    assert exchange().auth_details() == "logged into kafka@broker by SASL/GSSAPI"
