"""GET /whoami: who the server takes the caller for, so that a page offers only what is allowed."""

from __future__ import annotations

from fastapi import APIRouter

from srm_common.rest.access import CallerDep
from srm_common.rest.faults import responses
from srm_common.rest.ports import Right
from srm_common.rest.ranges import now_ms
from srm_common.rest.schemas import WhoAmI

router = APIRouter(prefix="/api/v2", tags=["service"])


@router.get("/whoami", responses=responses())
def whoami(caller: CallerDep) -> WhoAmI:
    """The caller's name and rights."""
    return WhoAmI(name=caller.name, rights=[right.value for right in Right if caller.may(right)], now_ms=now_ms())
