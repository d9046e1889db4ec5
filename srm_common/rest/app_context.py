"""What the routes of the web app work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, cast

from fastapi import Depends, Request

from srm_common.rest.current_figures import CurrentFigures
from srm_common.rest.ports import Access, Scheduler
from srm_common.settings_files.configuration import Configuration
from srm_common.store.metrics_store import MetricsStore
from srm_common.usecases.monitoring.lag_watch import LagWatch


@dataclass(frozen=True)
class AppContext:
    """``scheduler`` is None where there is no Airflow to ask. ``configuration`` loads the file anew (cached while it
    has not changed) and raises :class:`ConfigError`. ``lag`` asks clusters while somebody looks; whoever makes the
    context closes it with the store."""

    access: Access
    store: MetricsStore
    scheduler: Scheduler | None
    configuration: Callable[[], Configuration]
    lag: LagWatch = field(default_factory=LagWatch)

    @property
    def figures(self) -> CurrentFigures:
        """The history, with the lag of now."""
        return CurrentFigures(self.store, self.lag, self.configuration)


def app_context(request: Request) -> AppContext:
    return cast(AppContext, request.app.state.context)


AppContextDep = Annotated[AppContext, Depends(app_context)]
