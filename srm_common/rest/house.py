"""What the web app lives in, for its routes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends, Request

from srm_common.rest.ports import Access, Scheduler
from srm_common.settings_files.configuration import Configuration
from srm_common.store.metrics_store import MetricsStore


@dataclass(frozen=True)
class House:
    """What the app lives in. ``scheduler`` is None where there is no Airflow to ask. ``configuration`` loads the file
    anew (cached while it has not changed) and raises :class:`ConfigError`."""

    access: Access
    store: MetricsStore
    scheduler: Scheduler | None
    configuration: Callable[[], Configuration]


def house(request: Request) -> House:
    return cast(House, request.app.state.house)


HouseDep = Annotated[House, Depends(house)]
