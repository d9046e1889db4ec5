"""What the routes of the web app share: the context, the caller with their permissions, and the figures of the history,
with the current lag, where known, instead of the last report's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, cast

from fastapi import Depends, Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute

from srm_common.domain.flow import FlowName
from srm_common.domain.metrics.metric import Metric
from srm_common.domain.metrics.stats import Stats, TimeRange
from srm_common.domain.monitoring.flow_lag import FlowLag, LagSum
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import ConfigError
from srm_common.rest.faults import ApiError
from srm_common.rest.ports import Access, Caller, Right, Scheduler
from srm_common.settings_files.configuration import Configuration
from srm_common.store.metrics_store import MetricsStore, TopicOrder
from srm_common.store.rows import FlowRow, Page, PartitionRow, TopicRow
from srm_common.usecases.monitoring.lag_watch import LagWatch

_LAGS = (Metric.RECORDS_LAG, Metric.UNKNOWN_LAGS, Metric.LAG_AGE)
#: A range up to now ends when its request begins. What clusters return while the request is under way belongs to it:
#: otherwise one response would have the current lag beside statistics that end with the last report's.
_UNDER_WAY_MS = 10_000


class CurrentFigures:
    """Reads of the store that return lag. Each counts as a request for its flows, so their clusters are queried in the
    background; no read waits for them. Raises as :class:`MetricsStore`."""

    def __init__(self, store: MetricsStore, watch: LagWatch, configuration: Callable[[], Configuration]) -> None:
        self._store = store
        self._watch = watch
        self._configuration = configuration

    def flows(self, only: Collection[str] | None = None) -> list[FlowRow]:
        """As :meth:`MetricsStore.flows`."""
        rows = self._store.flows(only)
        lags = self._lags(row.flow for row in rows)
        return [replace(row, live=lags.get(row.flow)) for row in rows]

    def flow_stats(self, span: TimeRange, only: Collection[str]) -> Mapping[str, Mapping[Metric, Stats]]:
        """As :meth:`MetricsStore.flow_stats`."""
        lags = self._lags(only)
        found = {flow: dict(stats) for flow, stats in self._store.flow_stats(span, only).items()}
        for flow, stats in found.items():
            for metric in _LAGS:
                value = _value(metric, lags.get(flow))
                if value is not None and _within(span, lags[flow]):
                    stats[metric] = _with_newest(stats.get(metric), metric, span, value, lags[flow].taken_ms)
        return found

    def topics(
        self,
        flow: str,
        span: TimeRange,
        *,
        search: str = "",
        order: TopicOrder = "topic",
        offset: int = 0,
        limit: int = 100,
        metrics: Collection[Metric] | None = None,
    ) -> Page[TopicRow]:
        """As :meth:`MetricsStore.topics`."""
        lag = self._lags([flow]).get(flow)
        known = {} if lag is None else {topic: one.records.least for topic, one in lag.topics.items()}
        page = self._store.topics(
            flow, span, search=search, order=order, offset=offset, limit=limit, lags=known, metrics=metrics
        )
        lags = _LAGS if metrics is None else [metric for metric in _LAGS if metric in metrics]
        return Page([_topic_now(row, lag, span, lags) for row in page.rows], page.total, page.offset)

    def partitions(
        self, flow: str, *, topic: str | None = None, failed_only: bool = False, offset: int = 0, limit: int = 100
    ) -> Page[PartitionRow]:
        """As :meth:`MetricsStore.partitions`."""
        lag = self._lags([flow]).get(flow)
        page = self._store.partitions(flow, topic=topic, failed_only=failed_only, offset=offset, limit=limit)
        return Page([_partition_now(row, lag) for row in page.rows], page.total, page.offset)

    def series(
        self,
        flow: str,
        metric: Metric,
        span: TimeRange,
        *,
        topic: str | None = None,
        partition: int | None = None,
        points: int = 200,
    ) -> Sequence[Stats]:
        """As :meth:`MetricsStore.series`; the newest bucket, or one more, has the current lag."""
        stats = self._store.series(flow, metric, span, topic=topic, partition=partition, points=points)
        lag = self._lags([flow]).get(flow)
        value = _value(metric, lag, topic, partition)
        if lag is None or value is None or not _within(span, lag):
            return stats
        last = stats[-1] if stats else None
        if last is not None and last.latest_ms is not None and last.latest_ms >= lag.taken_ms:
            return stats
        if last is not None and last.span.start_ms <= lag.taken_ms < last.span.end_ms:
            return [*stats[:-1], _with_newest(last, metric, last.span, value, lag.taken_ms)]
        bucket = TimeRange(lag.taken_ms, max(lag.taken_ms, span.end_ms))
        return [*stats, _with_newest(None, metric, bucket, value, lag.taken_ms)][-points:]

    def topic(self, row: TopicRow, span: TimeRange) -> TopicRow:
        """A row of the store with the current lag."""
        return _topic_now(row, self._lags([row.flow]).get(row.flow), span)

    def _lags(self, flows: Iterable[str]) -> Mapping[str, FlowLag]:
        try:
            known = self._configuration().flows
        except ConfigError:
            return {}
        settings = [known[name] for name in map(FlowName.parse, flows) if name in known]
        return {str(name): lag for name, lag in self._watch.of(settings).items()}


def _within(span: TimeRange, lag: FlowLag) -> bool:
    return span.start_ms <= lag.taken_ms <= span.end_ms + _UNDER_WAY_MS


def _value(metric: Metric, lag: FlowLag | None, topic: str | None = None, partition: int | None = None) -> float | None:
    """The value of one of the metrics of lag; None for any other metric, and where it is unknown."""
    if lag is None or metric not in _LAGS:
        return None
    known: LagSum | None = lag.whole if topic is None else lag.topics.get(topic)
    if topic is not None and partition is not None:
        place = TopicPartition(topic, partition)
        known = LagSum.of([lag.partitions.get(place)]) if lag.knows(place) else None
    if known is None:
        return None
    if metric is Metric.UNKNOWN_LAGS:
        return float(known.records.unknown)
    # The known part of a sum is not the sum.
    return known.records.most if metric is Metric.RECORDS_LAG else known.behind_ms(lag.taken_ms)


def _with_newest(found: Stats | None, metric: Metric, span: TimeRange, value: float, taken_ms: int) -> Stats:
    """With one more sample, unless a newer one is among them."""
    if found is None or not found.count or found.min is None or found.max is None or found.sum is None:
        return Stats(metric, span, 1, value, value, value, value, taken_ms)
    if found.latest_ms is not None and found.latest_ms >= taken_ms:
        return found
    return replace(
        found,
        count=found.count + 1,
        min=min(found.min, value),
        max=max(found.max, value),
        sum=found.sum + value,
        latest=value,
        latest_ms=taken_ms,
    )


def _topic_now(row: TopicRow, lag: FlowLag | None, span: TimeRange, metrics: Iterable[Metric] = _LAGS) -> TopicRow:
    """``metrics``: the metrics of lag whose statistics are wanted."""
    now = None if lag is None or lag.taken_ms <= row.reported_ms else lag.topics.get(row.topic)
    if now is None or lag is None:
        return row
    stats = dict(row.stats)
    for metric in metrics if _within(span, lag) else ():
        value = _value(metric, lag, row.topic)
        if value is not None:
            stats[metric] = _with_newest(stats.get(metric), metric, span, value, lag.taken_ms)
    return replace(row, lag=now.records, lag_ms=lag.taken_ms, behind_ms=now.behind_ms(lag.taken_ms), stats=stats)


def _partition_now(row: PartitionRow, lag: FlowLag | None) -> PartitionRow:
    place = TopicPartition(row.topic, row.partition)
    if lag is None or not lag.knows(place):
        return row
    now = lag.partitions.get(place)
    if lag.taken_ms <= row.reported_ms:
        # Reports have no age of records; a record that waited then still does if nothing was copied since.
        if now is None or now.oldest_ms is None or now.position != row.position or not row.lag:
            return row
        return replace(row, behind_ms=float(max(0, row.reported_ms - now.oldest_ms)))
    if now is None:
        return row.at(lag.taken_ms, row.position, None, None, None)
    return row.at(lag.taken_ms, now.position, now.end, now.records, now.behind_ms(lag.taken_ms))


@dataclass(frozen=True)
class AppContext:
    """``current_store`` returns the open store, which may be another one later. ``scheduler`` is None where there is no
    Airflow to ask. ``configuration`` loads the file (cached while it has not changed) and raises :class:`ConfigError`.
    ``lag`` queries clusters while figures are requested; the creator of the context closes it with the store.
    ``store_notice`` tells why reports may be missing from a store that can be read; None: they are not."""

    access: Access
    current_store: Callable[[], MetricsStore]
    scheduler: Scheduler | None
    configuration: Callable[[], Configuration]
    lag: LagWatch = field(default_factory=LagWatch)
    store_notice: Callable[[], str | None] = lambda: None

    @property
    def store(self) -> MetricsStore:
        return self.current_store()

    @property
    def figures(self) -> CurrentFigures:
        """The history, with the current lag."""
        return CurrentFigures(self.store, self.lag, self.configuration)


def app_context(request: Request) -> AppContext:
    return cast(AppContext, request.app.state.context)


AppContextDep = Annotated[AppContext, Depends(app_context)]


#: Names of clusters: not empty, and no longer than a topic's name.
Alias = Annotated[str, Path(min_length=1, max_length=249, examples=["east"])]
TargetAlias = Annotated[str, Path(min_length=1, max_length=249, examples=["west"])]

#: The attribute of a request's state that holds the caller.
_CALLER = "srm_caller"


def caller(request: Request, context: AppContextDep) -> Caller:
    """The caller; 401 without a login. A plain function, as access may ask a database."""
    known: Caller | None = getattr(request.state, _CALLER, None)
    return context.access.caller(request) if known is None else known


CallerDep = Annotated[Caller, Depends(caller)]


class AfterLogin(APIRoute):
    """A route that reads the body of a request once its caller is known. FastAPI reads it first, so anyone could make
    the server parse and hold 10 MB of JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def after_login(request: Request) -> Response:
            setattr(request.state, _CALLER, await run_in_threadpool(caller, request, app_context(request)))
            return await handle(request)

        return after_login


def flow_for(right: Right) -> Callable[..., FlowName]:
    """A dependency: the flow of the path's ``{source}`` and ``{target}``, when the caller has the right; else 403."""

    def flow_of_path(source: Alias, target: TargetAlias, caller: CallerDep) -> FlowName:
        flow = FlowName(source, target)
        require(caller, right, flow)
        return flow

    return flow_of_path


def require(caller: Caller, right: Right, flow: FlowName | None = None) -> None:
    """Raises :class:`ApiError` (403) unless the caller has the right; ``flow`` None: for any flow at all."""
    if caller.may(right, flow):
        return
    which = "any flow" if flow is None else str(flow)
    what = {Right.READ: "read", Right.TRIGGER: "start, pause or resume", Right.EDIT: "edit"}[right]
    raise ApiError(403, "forbidden", f"{caller.name} may not {what} {which}", flow=None if flow is None else str(flow))


def reader(caller: CallerDep) -> Caller:
    """A caller who may read some flow; 403 for others."""
    require(caller, Right.READ)
    return caller


ReaderDep = Annotated[Caller, Depends(reader)]
ReadableFlow = Annotated[FlowName, Depends(flow_for(Right.READ))]
TriggerableFlow = Annotated[FlowName, Depends(flow_for(Right.TRIGGER))]
EditableFlow = Annotated[FlowName, Depends(flow_for(Right.EDIT))]
