"""The last task of a run: build the report of the run, for all that store or show it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.flow.names import StateKey
from srm_common.domain.monitoring.certificates import CertificateEnd
from srm_common.domain.monitoring.flow_lag import FlowLag
from srm_common.domain.monitoring.run_report import ClockSkew, RunReport, groups_from, topics_from
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord, RunState
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.verification.foreign_records import foreign_from
from srm_common.domain.verification.summary import VerificationSummary, results_table, uncompared
from srm_common.domain.verification.verification import PartitionVerified
from srm_common.errors import ConfigError, SrmError, StoreError
from srm_common.kafka.client.links.certificates import certificate_end
from srm_common.kafka.log.cluster_clock import clock_offset
from srm_common.settings_files.configuration import Configuration
from srm_common.store.location import open_store
from srm_common.store.metrics_store import MetricsStore
from srm_common.usecases.filters.effective_filters import EffectiveFilters
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.monitoring.heartbeats import heartbeat_report
from srm_common.usecases.monitoring.lag_watch import lag_now
from srm_common.usecases.monitoring.raw_metrics import publish_report
from srm_common.usecases.verification.kept_verification import results_in, summary_in

_LOG = logging.getLogger(__name__)


def make_report(
    flow: FlowSettings | FlowClusters,
    run_id: str,
    *,
    unable: str | None = None,
    warnings: Sequence[str] = (),
    filters: EffectiveFilters | None = None,
) -> RunReport:
    """The report of the run ``run_id``, which has ended, from the flow's state. Both clusters are queried again: the
    lag is that of this moment, even if the run could not copy, not that at the run's last listing.

    Args:
        unable: the sentence by which the run could not even begin to copy.
        filters: those that counted for the run.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers, where all that is kept.
        CorruptRecord: the record of the run is not ours to read.
    """
    with clusters_of(flow) as clusters:
        return _made(clusters, run_id, unable, warnings, filters)


_REPORTED = (
    StateKey.RUN,
    StateKey.DECISIONS,
    StateKey.PLAN,
    StateKey.GROUPS,
    StateKey.FOREIGN,
    StateKey.VERIFICATION,
)


def _made(
    clusters: FlowClusters,
    run_id: str,
    unable: str | None,
    warnings: Sequence[str],
    filters: EffectiveFilters | None,
) -> RunReport:
    flow = clusters.flow
    known = clusters.state.read_all(*_REPORTED, prefix=StateKey.VERIFIED)
    record = RunRecord.from_json(known[StateKey.RUN]) if StateKey.RUN in known else None
    clock = measure_clocks(clusters)
    # A report that is stamped by a clock ahead of the others' would make later ones of other hosts look late.
    now_ms = clusters.now_ms() + clock.correction_ms
    fault = None
    if record is None or record.run_id != run_id:
        fault = unable or f"run {run_id} left no record; the log of its task replicate says why"
        record = record and _standing(record, run_id, fault, now_ms)
    elif record.state is RunState.RUNNING:
        fault = f"run {run_id} was ended before it had finished"
        record = replace(record, state=RunState.FAILED, error=fault)
    notes = list(warnings)
    unknown = None
    if record is not None:
        record, unknown = _with_lag(clusters, record)
        if unknown is not None:
            notes.append(f"the lag is unknown, or as of the run: {unknown}")
    decisions = known.get(StateKey.DECISIONS)
    summary = summary_in(known)
    results = {verified.place: verified for topic in results_in(known).values() for verified in topic.values()}
    return RunReport(
        flow=str(flow.name),
        run_id=run_id,
        reported_ms=now_ms,
        run=record,
        fault=fault,
        warnings=tuple(notes),
        heartbeats=heartbeat_report(clusters, by_hop=True, run=record, source_fault=unknown),
        groups=groups_from(known.get(StateKey.GROUPS)),
        topic_groups=topics_from(known.get(StateKey.GROUPS)),
        clock=clock,
        schedule_interval_seconds=flow.schedule_interval_seconds,
        lag_objective_records=flow.lag_objective_records,
        decisions=None if decisions is None else {"decisions": decisions},
        plan=known.get(StateKey.PLAN),
        filters=None if filters is None else _filters(filters),
        foreign_writers=foreign_from(known.get(StateKey.FOREIGN)),
        verification=None if summary is None else _with_uncompared(summary, results, record),
        verified=None if summary is None else results_table(results.values()),
        **data_figures(flow, record),
        certificates=certificates_of(flow),
    )


def _with_uncompared(
    summary: VerificationSummary, results: Mapping[TopicPartition, PartitionVerified], record: RunRecord | None
) -> VerificationSummary:
    """The results of verifications, with the copied partitions of the run that were never compared."""
    if record is None:
        return summary
    copied = {
        TopicPartition(partition.upstream_topic, partition.partition): _copied_to(partition)
        for partition in record.partitions
    }
    return replace(summary, uncompared=len(uncompared(results, copied)))


def _copied_to(one: PartitionRecord) -> int | None:
    """Where the copy ends; only runs with transactions look."""
    return 0 if one.copy_end is None and not one.position else one.copy_end


def certificates_of(flow: FlowSettings) -> tuple[CertificateEnd, ...]:
    """Of each cluster that could be asked, which certificate ends first."""
    found = (certificate_end(flow.source), certificate_end(flow.target))
    return tuple(end for end in found if end is not None)


def data_topics(flow: FlowSettings, record: RunRecord | None) -> int | None:
    """How many topics the flow copies that are not heartbeats; None where no run could look."""
    if record is None or (record.error is not None and not record.partitions):
        return None
    topics = {partition.upstream_topic for partition in record.partitions}
    return sum(not names.has_heartbeats(flow, topic) for topic in topics)


def data_figures(flow: FlowSettings, record: RunRecord | None) -> dict[str, Any]:
    """What of a report tells data from heartbeats: ``data_topics``, ``data_records`` and ``heartbeat_lag``."""
    if record is None:
        return {}
    beats = (one.lag or 0 for one in record.partitions if names.has_heartbeats(flow, one.upstream_topic))
    return {
        "data_topics": data_topics(flow, record),
        "data_records": copied_records(flow, record)[0],
        "heartbeat_lag": sum(beats),
    }


def copied_records(flow: FlowSettings, record: RunRecord) -> tuple[int, int]:
    """Records of topics that are not heartbeats: those that the last attempt of the run copied, and all since the
    flow's state has known the partitions."""
    partitions = [
        partition for partition in record.partitions if not names.has_heartbeats(flow, partition.upstream_topic)
    ]
    return sum(one.records for one in partitions), sum(one.records_total or 0 for one in partitions)


def followed_by(clusters: FlowClusters, run_id: str, began_ms: int | None) -> str | None:
    """The run that left its record in place of this one's, if it began later: then there is nothing to report of this
    one, as when its task is cleared in Airflow after other runs.

    Args:
        began_ms: when this run began, in epoch milliseconds; None: not known.
    """
    known = clusters.state.read_all(StateKey.RUN)
    record = RunRecord.from_json(known[StateKey.RUN]) if StateKey.RUN in known else None
    if record is None or began_ms is None or record.run_id == run_id or record.started_ms <= began_ms:
        return None
    return record.run_id


def unreachable_report(flow: str, run_id: str, reason: str, clock: Callable[[], float] = time.time) -> RunReport:
    """The report of a run of which nothing else is known, because the target does not respond or its state cannot be
    read. ``clock`` gives epoch seconds."""
    return RunReport(flow, run_id, int(clock() * 1000), None, fault=reason)


def keep_report(report: RunReport, store: MetricsStore) -> str | None:
    """Write the report, which was made just now, to the history. Why it could not be written, in one sentence, which
    is logged, too: nothing but history depends on it."""
    try:
        store.write(report, now_ms=report.reported_ms)
    except StoreError as error:
        return _not_kept(report, error)
    return None


def keep_in_history(report: RunReport, configuration: Configuration) -> str | None:
    """The same, in the store that the configuration or the environment names."""
    try:
        store = open_store(configuration)
    except (StoreError, ConfigError) as error:
        return _not_kept(report, error)
    try:
        return keep_report(report, store)
    finally:
        store.close()


def report_by_hand(
    flow: FlowSettings | FlowClusters,
    run_id: str,
    configuration: Configuration,
    *,
    unable: str | None = None,
    filters: EffectiveFilters | None = None,
) -> list[str]:
    """What Airflow's task does, for a run without Airflow: to the history, and to the topic with raw metrics where
    there is one. Returns what could not be done, a sentence each.

    Args:
        unable: why the run ended before it could copy.
        filters: those that counted for the run.
    """
    with clusters_of(flow) as clusters:
        try:
            report = make_report(clusters, run_id, unable=unable, filters=filters)
        except SrmError as error:
            report = unreachable_report(str(clusters.flow.name), run_id, str(error), clusters.clock)
        faults = [keep_in_history(report, configuration), publish_report(clusters, report)]
    return [fault for fault in faults if fault is not None]


def _not_kept(report: RunReport, error: SrmError) -> str:
    _LOG.error("%s: run %s is not in the history: %s", report.flow, report.run_id, error)
    return str(error)


def measure_clocks(clusters: FlowClusters) -> ClockSkew:
    """Both clusters' clocks compared with this host's, as far as they can be queried; both are queried at the same
    time."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="srm-clock") as pool:
        asked = pool.submit(clock_offset, clusters.source.settings, clusters.source.links)
        target = clock_offset(clusters.target.settings, clusters.target.links)
        source = asked.result()
    errors = [offset.uncertainty_ms for offset in (source, target) if offset is not None]
    return ClockSkew(
        source_ms=None if source is None else round(source.ahead_ms, 1),
        target_ms=None if target is None else round(target.ahead_ms, 1),
        uncertainty_ms=round(max(errors), 1) if errors else None,
    )


def _standing(last: RunRecord, run_id: str, fault: str, now_ms: int) -> RunRecord:
    """A run that copied nothing, with the partitions where the last record left them."""
    return RunRecord(
        flow=last.flow,
        run_id=run_id,
        started_ms=now_ms,
        finished_ms=now_ms,
        passes=0,
        state=RunState.FAILED,
        error=fault,
        partitions=tuple(partition.carried() for partition in last.partitions),
        open_transactions=last.open_transactions,
    )


def _with_lag(clusters: FlowClusters, record: RunRecord) -> tuple[RunRecord, str | None]:
    """With the positions and ends of this moment; and why some could not be asked."""
    try:
        lag = lag_now(clusters)
    except SrmError as error:
        return record, str(error)
    if lag is None:
        return record, None
    return with_lag(record, lag), lag.fault


def with_lag(record: RunRecord, lag: FlowLag) -> RunRecord:
    """With positions and ends as they were asked for since; of a partition that could not be asked no end is known."""

    def now(one: PartitionRecord) -> PartitionRecord:
        place = TopicPartition(one.upstream_topic, one.partition)
        if place in lag.unknown:
            return replace(one, end=None, oldest_ms=None)
        at = lag.partitions.get(place)
        return one if at is None else replace(one, position=at.position, end=at.end, oldest_ms=at.oldest_ms)

    return replace(record, partitions=tuple(map(now, record.partitions)))


def _filters(effective: EffectiveFilters) -> dict[str, object]:
    """What counted: whole lists by key, and where they are from."""
    return {
        "lists": effective.filters.lists().to_json(),
        "edited": list(effective.filters.edited),
        "origin": effective.filters.origin,
        "faults": list(effective.faults),
    }
