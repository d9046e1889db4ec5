"""Callers of ``srm-control serve``: by HTTP's Basic login, or, on this machine only, whoever asks."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection
from dataclasses import dataclass

from fastapi import Request

from srm_common.domain.flow import FlowName
from srm_common.rest.faults import ApiError
from srm_common.rest.ports import Right
from srm_common.rest.serving.logins import ROLES, Logins, WatchedLogins

_CHALLENGE = {"WWW-Authenticate": 'Basic realm="Replication flows", charset="UTF-8"'}
#: RFC 6761 and the addresses of loopback.
_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Person:
    """A caller whose rights hold for every flow."""

    name: str
    rights: frozenset[Right]

    def may(self, right: Right, flow: FlowName | None = None) -> bool:
        return right in self.rights

    def readable(self, flows: Collection[FlowName]) -> set[FlowName]:
        return set(flows) if Right.READ in self.rights else set()


class BasicAccess:
    """A name and a password with each request (RFC 7617)."""

    def __init__(self, logins: Logins | WatchedLogins) -> None:
        self._logins = logins

    def caller(self, request: Request) -> Person:
        kind, _, credentials = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "basic":
            raise ApiError(401, "login_needed", "this needs a login", headers=_CHALLENGE)
        try:
            text = base64.b64decode(credentials.strip(), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise ApiError(401, "login_needed", "the login cannot be read", headers=_CHALLENGE) from None
        name, _, password = text.partition(":")
        login = self._logins.find(name, password)
        if login is None:
            raise ApiError(401, "login_needed", "name or password is wrong", headers=_CHALLENGE)
        return Person(login.name, ROLES[login.role])


class OpenAccess:
    """Whoever asks may do everything.

    Args:
        this_machine: the service listens on loopback. Requests to it must call it by a name of this machine, as a page
            of the Internet can make its own name lead here, and ask as if it were from here.
    """

    def __init__(self, *, this_machine: bool) -> None:
        self._this_machine = this_machine

    def caller(self, request: Request) -> Person:
        if self._this_machine and (request.url.hostname or "") not in _THIS_MACHINE:
            raise ApiError(403, "forbidden", "without users this service is only available on localhost")
        return Person("anybody", frozenset(Right))
