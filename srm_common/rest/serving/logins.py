"""Users of ``srm-control serve``: names, passwords and roles, from the environment or a file.

A line of the file is ``NAME:ROLE:PASSWORD``, where the role is viewer, user or op, as in Airflow. The password is plain
text, or hashed by ``srm-control serve --hash-password``. Empty lines and lines that begin with # are ignored.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import math
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fastapi import Request

from srm_common.domain.flow import FlowName
from srm_common.errors import ConfigError
from srm_common.rest.faults import ApiError
from srm_common.rest.ports import Right
from srm_common.rest.serving.connection_limits import network_of
from srm_common.rest.serving.watched_files import stamp

ROLES: Mapping[str, frozenset[Right]] = {
    "viewer": frozenset({Right.READ}),
    "user": frozenset({Right.READ, Right.TRIGGER}),
    "op": frozenset(Right),
}
USER, PASSWORD = "SRM_SERVE_USER", "SRM_SERVE_PASSWORD"

_SCHEME = "{scrypt}"
# RFC 7914; 16 MB and some 50 ms for each guess.
_COST, _BLOCK, _PARALLEL = 1 << 14, 8, 1
_SALT_BYTES, _KEY_BYTES = 16, 32
#: How many correct logins are remembered; more would only cost memory.
_REMEMBERED = 1000
#: How many wrong logins an address may try in this many seconds; each costs it, and this process, at least 50 ms.
MOST_WRONG, _WRONG_SECONDS = 10, 60.0
#: How many addresses are remembered for it; the oldest are forgotten first.
_WRONG_ADDRESSES = 10_000


@dataclass(frozen=True)
class Login:
    """``secret`` is a password, plain or hashed."""

    name: str
    role: str
    secret: str = field(repr=False)


class Logins:
    """Checks names and passwords. A wrong name takes as long as a wrong password, plain or hashed."""

    def __init__(self, logins: Collection[Login]) -> None:
        self._logins = {login.name: login for login in logins}
        self._nobody = hashed(secrets.token_hex(8))
        # Correct logins are recognised by a digest that is useless outside this process.
        self._key = secrets.token_bytes(32)
        self._right: dict[bytes, Login] = {}
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._logins)

    def known(self, name: str, password: str) -> Login | None:
        """The login, if the password was correct before."""
        with self._lock:
            return self._right.get(self._digest(name, password))

    def _digest(self, name: str, password: str) -> bytes:
        return hmac.digest(self._key, f"{name}\0{password}".encode(), "sha256")

    def find(self, name: str, password: str) -> Login | None:
        """The login, if the password is correct."""
        known = self.known(name, password)
        if known is not None:
            return known
        digest = self._digest(name, password)
        login = self._logins.get(name)
        if login is None or not matches(password, login.secret):
            if login is None or not login.secret.startswith(_SCHEME):
                matches(password, self._nobody)  # only for its time: to compare a plain secret takes none
            return None
        with self._lock:
            if len(self._right) >= _REMEMBERED:
                self._right.clear()
            self._right[digest] = login
        return login


def hashed(password: str) -> str:
    """The password in a form that a file may contain."""
    salt = secrets.token_bytes(_SALT_BYTES)
    return f"{_SCHEME}{_COST}:{_text(salt)}:{_text(_key(password, salt, _COST))}"


def matches(password: str, secret: str) -> bool:
    """Whether ``secret``, plain or hashed, is that of ``password``."""
    if not secret.startswith(_SCHEME):
        return hmac.compare_digest(password.encode(), secret.encode())
    cost, salt, key = _parts(secret)
    return hmac.compare_digest(_key(password, salt, cost), key)


def read_logins(path: Path) -> list[Login]:
    """Raises :class:`ConfigError` with the number of the line, never with its content."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the password file cannot be read: {error}", file=str(path)) from error
    logins: dict[str, Login] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, _, rest = line.strip().partition(":")
        role, colon, secret = rest.partition(":")
        fault = _fault(name, role, secret) if colon else "it is not NAME:ROLE:PASSWORD"
        if fault is None and name in logins:
            fault = "another line has the same name"
        if fault is not None:
            raise ConfigError(fault, file=str(path), line=number)
        logins[name] = Login(name, role, secret)
    if not logins:
        raise ConfigError("it has no users; add lines such as NAME:ROLE:PASSWORD", file=str(path))
    return list(logins.values())


def environment_login(environment: Mapping[str, str]) -> Login | None:
    """The login of SRM_SERVE_USER and SRM_SERVE_PASSWORD, who may do everything. Raises :class:`ConfigError`."""
    name, password = environment.get(USER, ""), environment.get(PASSWORD, "")
    if not name and not password:
        return None
    if not name or not password:
        raise ConfigError(f"{USER} and {PASSWORD} go together, and {PASSWORD if name else USER} is not set")
    if ":" in name:
        raise ConfigError(f"{USER} must not contain a colon, which HTTP Basic authentication does not allow in names")
    fault = _fault(name, "op", password)
    if fault is not None:
        raise ConfigError(f"{PASSWORD}: {fault}")
    return Login(name, "op", password)


def _fault(name: str, role: str, secret: str) -> str | None:
    if not name or not secret:
        return f"the {'password' if name else 'name'} is missing"
    if role not in ROLES:
        return f"the role is one of {', '.join(ROLES)}"
    if secret.startswith(_SCHEME):
        try:
            _parts(secret)
        except (ValueError, binascii.Error):
            return "the hash cannot be read; make one with srm-control serve --hash-password"
    return None


def _parts(secret: str) -> tuple[int, bytes, bytes]:
    """Cost, salt and key. Raises ValueError."""
    cost, salt, key = secret.removeprefix(_SCHEME).split(":")
    if not 2 <= int(cost) <= _COST or int(cost) & (int(cost) - 1):
        raise ValueError("the cost cannot be used")
    return int(cost), base64.b64decode(salt, validate=True), base64.b64decode(key, validate=True)


def _key(password: str, salt: bytes, cost: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=cost, r=_BLOCK, p=_PARALLEL, dklen=_KEY_BYTES)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


# The logins of a password file, read again when it has changed.


_LOG = logging.getLogger(__name__)


class WatchedLogins:
    """The logins of ``path`` as it is now, and ``others``.

    A file that can no longer be used changes nothing: a typo must not lock everyone out. The log says so.

    Raises:
        ConfigError: it cannot be used at the start.
    """

    def __init__(self, path: Path, others: Collection[Login] = ()) -> None:
        self._path = path
        self._others = tuple(others)
        self._lock = threading.Lock()
        self._stamp = stamp(path)
        self._logins = self._read()

    def known(self, name: str, password: str) -> Login | None:
        """The login, if the password was correct before."""
        return self._now().known(name, password)

    def find(self, name: str, password: str) -> Login | None:
        """The login, if the password is correct."""
        return self._now().find(name, password)

    def _now(self) -> Logins:
        with self._lock:
            # The stamp first: what is written while the file is read is read with the next request.
            now = stamp(self._path)
            if now != self._stamp:
                self._stamp = now
                try:
                    self._logins = self._read()
                except ConfigError as error:
                    _LOG.error("%s; the previous users stay in effect", error)
            return self._logins

    def _read(self) -> Logins:
        return Logins([*self._others, *read_logins(self._path)])


# Callers of ``srm-control serve``: by HTTP's Basic login, or, on this machine only, without a login.


_CHALLENGE = {"WWW-Authenticate": 'Basic realm="Replication flows", charset="UTF-8"'}
#: The header Host with a name of RFC 6761 or an address of loopback. Starlette's ``request.url`` is no help: it has the
#: server's own address for a Host that it cannot read, and before 1.3 a part of the path.
_THIS_MACHINE = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Person:
    """A caller whose rights hold for every flow."""

    name: str
    rights: frozenset[Right]

    @classmethod
    def of(cls, login: Login) -> Person:
        """The caller with this login."""
        return cls(login.name, ROLES[login.role])

    def may(self, right: Right, flow: FlowName | None = None) -> bool:
        return right in self.rights

    def readable(self, flows: Collection[FlowName]) -> set[FlowName]:
        return set(flows) if Right.READ in self.rights else set()


class WrongLogins:
    """Counts wrong logins by address (:func:`network_of`). ``clock`` gives seconds that never go back. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._of: dict[str, deque[float]] = {}

    def wait_seconds(self, address: str) -> float:
        """How long the address has to wait until it may try again; 0 if it need not."""
        now = self._clock()
        with self._lock:
            times = self._of.get(address, deque())
            while times and times[0] <= now - _WRONG_SECONDS:
                times.popleft()
            return times[0] + _WRONG_SECONDS - now if len(times) >= MOST_WRONG else 0.0

    def add(self, address: str) -> None:
        """One more."""
        with self._lock:
            times = self._of.pop(address, None) or deque(maxlen=MOST_WRONG)
            times.append(self._clock())
            self._of[address] = times  # last in the order of insertion
            if len(self._of) > _WRONG_ADDRESSES:
                del self._of[next(iter(self._of))]


class BasicAccess:
    """A name and a password with each request (RFC 7617).

    After :data:`MOST_WRONG` wrong ones an address has to wait. Callers who have logged in before are not affected:
    behind a proxy everyone has the same address, and no one must be able to lock the others out.
    """

    def __init__(self, logins: Logins | WatchedLogins, wrong: WrongLogins | None = None) -> None:
        self._logins = logins
        self._wrong = wrong or WrongLogins()

    def caller(self, request: Request) -> Person:
        kind, _, credentials = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "basic":
            raise ApiError(401, "login_needed", "this needs a login", headers=_CHALLENGE)
        try:
            text = base64.b64decode(credentials.strip(), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise ApiError(401, "login_needed", "the login cannot be read", headers=_CHALLENGE) from None
        name, _, password = text.partition(":")
        return Person.of(self._logins.known(name, password) or self._tried(request, name, password))

    def _tried(self, request: Request, name: str, password: str) -> Login:
        address = request.client.host if request.client else ""
        network = network_of(address)
        wait = math.ceil(self._wrong.wait_seconds(network))
        if wait:
            raise ApiError(
                429,
                "too_many_logins",
                f"too many wrong logins from {address or 'this address'}; try again in {wait} s",
                headers={"Retry-After": str(wait)},
            )
        login = self._logins.find(name, password)
        if login is None:
            self._wrong.add(network)
            raise ApiError(401, "login_needed", "name or password is wrong", headers=_CHALLENGE)
        return login


class OpenAccess:
    """Every caller may do everything.

    Args:
        this_machine: the service listens on loopback, with no proxy in front. Requests must address it by a name of
            this machine, since a page on the Internet can make its own name resolve to it (DNS rebinding).
    """

    def __init__(self, *, this_machine: bool) -> None:
        self._this_machine = this_machine

    def caller(self, request: Request) -> Person:
        if self._this_machine and not _THIS_MACHINE.fullmatch(request.headers.get("host", "")):
            raise ApiError(
                403,
                "forbidden",
                "without users this service is only available on localhost; behind a proxy that has logins it needs "
                "the option --insecure",
            )
        return Person("anybody", frozenset(Right))
