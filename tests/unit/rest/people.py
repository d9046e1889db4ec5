"""Who may ask in tests: names and rights, chosen by a header."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fastapi import Request

from srm_common.domain.flow import FlowName
from srm_common.rest.faults import ApiError
from srm_common.rest.ports import Right

#: Its value is the name alone.
HEADER = "Authorization"
RIGHTS = {
    "nobody": frozenset[Right](),
    "viewer": frozenset({Right.READ}),
    "user": frozenset({Right.READ, Right.TRIGGER}),
    "op": frozenset(Right),
}


@dataclass(frozen=True)
class Person:
    name: str
    hidden: frozenset[FlowName] = frozenset()

    def may(self, right: Right, flow: FlowName | None = None) -> bool:
        return right in RIGHTS[self.name] and flow not in self.hidden

    def readable(self, flows: Collection[FlowName]) -> set[FlowName]:
        return {flow for flow in flows if self.may(Right.READ, flow)}


class HeaderAccess:
    """``hidden``: flows that nobody may see."""

    def __init__(self, hidden: Collection[FlowName] = ()) -> None:
        self.hidden = frozenset(hidden)

    def caller(self, request: Request) -> Person:
        name = request.headers.get(HEADER)
        if name not in RIGHTS:
            raise ApiError(401, "login_needed", "this needs a login")
        return Person(name, self.hidden)
