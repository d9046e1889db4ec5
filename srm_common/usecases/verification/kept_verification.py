"""Verifications that are remembered in the flow's state, so that they can be ended and resumed, and shown elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from srm_common import __version__
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.names import StateKey
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.verification.repair_plan import RepairStep, repair_plan
from srm_common.domain.verification.summary import (
    VerificationSummary,
    newest_result,
    results_document,
    results_from,
    shortened,
    summarized,
)
from srm_common.domain.verification.verification import (
    Against,
    PartitionVerified,
    Verdict,
    Verification,
    VerificationScope,
)
from srm_common.usecases.flows.flow_clusters import FlowClusters, clusters_of
from srm_common.usecases.verification.verify_copies import Report, Share, verify_copies

#: What was compared since the last write is compared again by who resumes.
_WRITE_SECONDS = 15.0


def verify_and_keep(
    flow: FlowSettings | FlowClusters,
    scope: VerificationScope | None = None,
    *,
    against: Against = Against.MAP,
    chosen: Callable[[str], bool] = lambda topic: True,
    resume: bool = False,
    resume_since_ms: int = 0,
    report: Report = lambda one: None,
    share: Share = lambda copies: False,
    show_keys: bool = False,
) -> Verification:
    """As :func:`srm_common.usecases.verification.verify_copies.verify_copies`, with the results in the flow's state.

    Args:
        resume: leave out what the newest verification compared, if it was stopped before its end or could not read all.
            Its results are among those that are returned.
        resume_since_ms: only if it began then (epoch milliseconds) or later.

    Raises:
        CorruptRecord: what is remembered cannot be read.
        UnreachableCluster, AccessDenied, ClusterError, StateError: as the target answers.
    """
    with clusters_of(flow) as clusters:
        wanted = scope or VerificationScope()
        kept = _Kept(clusters, against, resume_since_ms if resume else None, wanted.whole)
        kept.begin()

        def take(result: PartitionVerified) -> None:
            kept.add(result)
            report(result)

        try:
            verification = verify_copies(
                clusters,
                wanted,
                against=against,
                chosen=chosen,
                skip=kept.is_done,
                report=take,
                share=share,
                show_keys=show_keys,
            )
        finally:
            kept.write()
        kept.end(verification)
        return kept.with_earlier(verification, chosen)


def newest_start(clusters: FlowClusters) -> int | None:
    """When the newest verification began, by the clock of who ran it (epoch milliseconds); None where there was none.

    Raises:
        CorruptRecord: what is remembered cannot be read.
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    summary = summary_in(clusters.state.read_all(StateKey.VERIFICATION))
    return None if summary is None else summary.started_ms


def kept_results(
    flow: FlowSettings | FlowClusters,
    chosen: Callable[[str], bool],
    before: int | None,
    resume_since_ms: int | None = None,
) -> list[PartitionVerified]:
    """What another process has found, in the verification that it ran, of the topics that are ``chosen``, in order.

    Its clock may be another one than ours, so a new verification is told by its start, which is not that of
    ``before``.

    Args:
        before: the :func:`newest_start` before that process began.
        resume_since_ms: as it was told, where it was to resume a verification, which keeps its start.

    Raises:
        CorruptRecord: what is remembered cannot be read.
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    with clusters_of(flow) as clusters:
        known = clusters.state.read_all(StateKey.VERIFICATION, prefix=StateKey.VERIFIED)
        summary = summary_in(known)
        if summary is None:
            return []
        resumed = resume_since_ms is not None and summary.started_ms >= resume_since_ms
        if summary.started_ms == before and not resumed:
            return []
        verifieds = [
            result
            for topic, results in results_in(known).items()
            for result in results.values()
            if chosen(topic) and result.checked_ms >= summary.started_ms
        ]
        return sorted(verifieds, key=lambda one: one.place)


def planned_repair(flow: FlowSettings | FlowClusters) -> list[RepairStep]:
    """What would mend the copies that verifications have found different, by their newest results. Changes nothing.

    Raises:
        CorruptRecord: what is remembered cannot be read.
        UnreachableCluster, AccessDenied, ClusterError: as the target answers.
    """
    with clusters_of(flow) as clusters:
        results = results_in(clusters.state.read_all(prefix=StateKey.VERIFIED))
        return repair_plan(
            str(clusters.flow.name), (verified for topic in results.values() for verified in topic.values())
        )


class _Kept:
    """What the flow remembers, and what is added to it."""

    def __init__(self, clusters: FlowClusters, against: Against, since_ms: int | None, whole: bool) -> None:
        self._clusters = clusters
        self._against = against
        self._whole = whole
        known = clusters.state.read_all(StateKey.VERIFICATION, prefix=StateKey.VERIFIED)
        before = summary_in(known)
        now_ms = clusters.now_ms()
        self._had_one = before is not None
        #: Whether it goes on with the one before.
        self.resumes = (
            since_ms is not None
            and before is not None
            and (before.ended_ms is None or Verdict.FAILED in before.counts)
            and before.against is against
            and before.started_ms >= since_ms
        )
        self.started_ms = before.started_ms if self.resumes and before is not None else now_ms
        self._results = results_in(known)
        self._changed: set[str] = set()
        self._written = clusters.clock()

    def begin(self) -> None:
        """An earlier one that was stopped cannot be resumed any more, also if this one is killed before its first
        result."""
        if self._had_one and not self.resumes:
            self._write_summary(None)

    def is_done(self, place: TopicPartition) -> bool:
        """Whether the verification that is resumed has compared the partition."""
        verified = self._results.get(place.topic, {}).get(place.partition)
        return verified is not None and self._is_earlier(verified)

    def _is_earlier(self, result: PartitionVerified) -> bool:
        """Whether it is a result of the verification that is resumed, which need not be compared again."""
        recent = self.resumes and result.checked_ms >= self.started_ms
        return recent and result.verdict is not Verdict.FAILED and (result.whole or not self._whole)

    def add(self, result: PartitionVerified) -> None:
        """One more partition was compared."""
        # Another machine, whose clock is ahead, may have begun what is resumed.
        result = replace(result, checked_ms=max(result.checked_ms, self.started_ms))
        topic = self._results.setdefault(result.topic, {})
        if result.of_topic:
            topic.clear()
        before = topic.get(result.partition)
        topic[result.partition] = newest_result(before, shortened(result), against_map=self._against is Against.MAP)
        self._changed.add(result.topic)
        if self._clusters.clock() - self._written >= _WRITE_SECONDS:
            self.write()

    def write(self) -> None:
        """Keep what was compared so far."""
        state = self._clusters.state
        for topic in sorted(self._changed):
            state.write(StateKey.VERIFIED + topic, results_document(self._results[topic]))
        if self._changed:
            self._write_summary(None)
        self._changed.clear()
        self._written = self._clusters.clock()

    def with_earlier(self, found: Verification, chosen: Callable[[str], bool]) -> Verification:
        """The whole verification: with the results of the one that was resumed."""
        of_now = {partition.place for partition in found.partitions}
        earlier = [
            result
            for topic, results in self._results.items()
            for result in results.values()
            if chosen(topic) and result.place not in of_now and self._is_earlier(result)
        ]
        together = sorted((*found.partitions, *earlier), key=lambda one: one.place)
        return replace(found, started_ms=self.started_ms, partitions=tuple(together))

    def end(self, found: Verification) -> None:
        """All that was to be compared is; forget topics that the flow does not copy any more."""
        recorded = self._clusters.target.registry.read().of_flow(self._clusters.flow.name)
        for topic in sorted(self._results.keys() - recorded.keys()):
            del self._results[topic]
            self._clusters.state.write(StateKey.VERIFIED + topic, None)
        if self._results:
            self._write_summary(found.ended_ms, found.evidence.configuration)

    def _write_summary(self, ended_ms: int | None, configuration: str = "") -> None:
        results = [verified for topic in self._results.values() for verified in topic.values()]
        flow = str(self._clusters.flow.name)
        summary = summarized(flow, self._against, self.started_ms, ended_ms, results)
        summary = replace(summary, software=__version__, configuration=configuration)
        self._clusters.state.write(StateKey.VERIFICATION, summary.to_json())


def summary_in(known: Mapping[str, Any]) -> VerificationSummary | None:
    """The newest verification among values of the flow's state, None where there was none.

    Raises:
        CorruptRecord: it cannot be read.
    """
    found = known.get(StateKey.VERIFICATION)
    return None if found is None else VerificationSummary.from_json(found)


def results_in(known: Mapping[str, Any]) -> dict[str, dict[int, PartitionVerified]]:
    """The newest results among values of the flow's state, by topic at the source and partition.

    Raises:
        CorruptRecord: one cannot be read.
    """
    topics = {key.removeprefix(StateKey.VERIFIED): value for key, value in known.items() if _is_result(key)}
    return {topic: results_from(value, topic) for topic, value in topics.items()}


def _is_result(key: str) -> bool:
    return key.startswith(StateKey.VERIFIED)
