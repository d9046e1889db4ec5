"""Checkpoints during a run, so that they are recent even if the source dies in a long run. What the task
``sync_checkpoints`` does after a run is done here for the common case only, cheaply and often: groups that moved, on
copies that are as the last round of the task left them, at places that the offset map tells exactly. Whatever needs a
look into a log, or a judgement about a former copy, waits for the task.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Self

from srm_common.domain.filters.flow_filters import group_filter
from srm_common.domain.flow import FlowSettings, names
from srm_common.domain.flow.names import StateKey
from srm_common.domain.monitoring.run_report import GroupSample, groups_from, groups_record
from srm_common.domain.offsets.checkpoints import Checkpoint, CheckpointMemory, supersedes
from srm_common.domain.offsets.translation import NotReplicatedYet, Translated, Translation, Unmapped
from srm_common.domain.topics.state_topics import state_topics
from srm_common.errors import CorruptRecord, SrmError
from srm_common.kafka.groups.group_offsets import CommittedOffset, GroupOffsets
from srm_common.kafka.state.checkpoint_log import Place, newest_checkpoints
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.offsets.exact_translation import ExactTranslation
from srm_common.usecases.offsets.make_checkpoints import CopiedPlaces
from srm_common.usecases.offsets.sync_checkpoints import write_checkpoints
from srm_common.wire.state.mm2 import MAX_STRING_BYTES

_LOG = logging.getLogger(__name__)
#: The pause after a round is at least as long as the round, and this many times its CPU time: rounds use a tenth of a
#: core at most.
_SHARE = 10
_LONGEST_PAUSE_SECONDS = 60.0
#: How long a run that has copied waits for its last round.
_LAST_ROUND_SECONDS = 5.0
#: How long the end of any other run waits for a round that is active.
_LAST_SECONDS = 1.0
#: What was added to the map in this time is read again in each round, so that a group that lags by less needs no more.
_TAIL_SECONDS = 120.0
#: How often it is looked up what is copied where.
_MAPPING_SECONDS = 30.0
_REQUEST_SECONDS = 10.0


class SteadyCheckpoints:
    """A context manager around a run. The first round comes one interval after the start, the last one when
    :meth:`copied` says that all is copied: the task that follows would come seconds later, and a source that dies in
    between would leave groups where they stood one run ago.

    It has a thread and connections of its own. What goes wrong is a note of the run, once until it is over, and ends
    neither the copying nor the rounds; the end of a run waits for seconds at most.

    Args:
        note: takes a sentence into the run's record.
        clock: epoch seconds.
    """

    def __init__(self, flow: FlowSettings, note: Callable[[str], None], clock: Callable[[], float] = time.time) -> None:
        self._flow = flow
        self._clock = clock
        self._note = note
        self._ended = threading.Event()
        self._wake = threading.Event()
        self._last_round = threading.Event()
        self._thread = threading.Thread(target=self._work, name="srm-checkpoints", daemon=True)
        self._failing = False

    def __enter__(self) -> Self:
        if self._flow.emit_checkpoints and self._flow.emit_checkpoints_in_runs_interval_seconds > 0:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_LAST_SECONDS)

    def copied(self) -> None:
        """Nothing more will be committed: returns after one more round, or when it takes too long."""
        if self._thread.is_alive():
            self._wake.set()
            self._last_round.wait(_LAST_ROUND_SECONDS)

    def _work(self) -> None:
        interval = pause = self._flow.emit_checkpoints_in_runs_interval_seconds
        rounds: CheckpointRounds | None = None
        last = False
        while not last:
            last = self._wake.wait(pause)
            if self._ended.is_set():
                break
            begun, used = time.monotonic(), time.thread_time()
            try:
                rounds = rounds or CheckpointRounds(self._flow, self._ended.is_set, self._clock)
                said = rounds.go()
            except Exception as fault:  # a mistake of ours must not end the copying, nor pass in silence
                said = self._sentence(fault)
                if rounds is not None:
                    rounds.close()
                rounds = None
            self._say(said)
            took = max(time.monotonic() - begun, _SHARE * (time.thread_time() - used))
            pause = max(interval, min(took, _LONGEST_PAUSE_SECONDS))
            _LOG.debug("%s: a round of checkpoints took as much as %.2f s", self._flow.name, took)
        if rounds is not None:
            try:
                rounds.keep_samples()
            except Exception as fault:  # as above
                self._say(self._sentence(fault))
            rounds.close()
        self._last_round.set()

    def _sentence(self, fault: Exception) -> str:
        if not isinstance(fault, SrmError):
            _LOG.error("%s: checkpoints within the run", self._flow.name, exc_info=fault)
        return str(fault) or repr(fault)

    def _say(self, fault: str) -> None:
        if self._ended.is_set():
            return
        if fault and not self._failing:
            self._note(f"checkpoints were not written while the run copied: {fault}")
        elif self._failing and not fault:
            self._note("checkpoints are written again while the run copies")
        self._failing = bool(fault)


@dataclass(frozen=True, slots=True)
class _Moved:
    """A group that has moved since the last round, or that was ahead of the copy then."""

    group: str
    topic: str
    partition: int
    committed: CommittedOffset

    @property
    def at(self) -> tuple[str, str, int]:
        return self.group, self.topic, self.partition


class CheckpointRounds:
    """Rounds of checkpoints on connections that are kept, with what was read before in memory.

    Args:
        ended: the run is over: nothing more is written.
        clock: epoch seconds.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError, StateError: from making it and from :meth:`go`, as the clusters
            answer.
    """

    def __init__(
        self,
        flow: FlowSettings,
        ended: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._flow = flow
        self._ended = ended
        self._chosen = group_filter(flow)
        self._settled: dict[tuple[str, str, int], int] = {}
        self._copies: CopiedPlaces | None = None
        self._mapped = 0.0
        seconds = min(_REQUEST_SECONDS, flow.request_seconds)
        with ExitStack() as stack:
            # Its own, since it has a thread of its own and must not wait for what the run reads.
            self._clusters = clusters = stack.enter_context(FlowClusters(flow, timeout_seconds=seconds, clock=clock))
            target = clusters.target
            target.ensure([topic for topic in state_topics(flow) if topic.name == names.checkpoints_topic(flow)])
            self._groups = stack.enter_context(clusters.source.group_watch(seconds))
            self._memory = CheckpointMemory.from_json(clusters.state.read(StateKey.CHECKPOINTS))
            self._samples: dict[str, GroupSample] = {}
            self._before = newest_checkpoints(target.reader, names.checkpoints_topic(flow)).by_place
            self._log = target.segment_log(names.segments_topic(flow.name.source))
            self._marks = deque([(time.monotonic(), dict(self._memory.checked))])
            self._stack = stack.pop_all()

    def close(self) -> None:
        self._stack.close()

    def go(self) -> str:
        """One round. Returns what could not be asked, in one sentence; empty when nothing is amiss."""
        self._asked = time.monotonic()
        offsets, faults = self._groups.committed(lambda group: self._chosen.decide(group).accepted)
        moved = [one for one in self._moved(offsets) if not self._ended()]
        if moved:
            self._look_up(offsets)
            places = [(one, remote) for one in moved if (remote := self._remote(one.topic)) is not None]
            self._write(places)
        return faults[0] if faults else ""

    def keep_samples(self) -> None:
        """For the report of the run: when groups got their newest checkpoints. Whatever else is known of them is the
        task's to find out."""
        if not self._samples or self._ended():
            return
        state = self._clusters.state
        known = {sample.group: sample for sample in groups_from(state.read(StateKey.GROUPS))}
        for group, new in self._samples.items():
            known[group] = replace(
                known.get(group, new),
                checkpoint_latency_ms=new.checkpoint_latency_ms,
                checkpoint_ms=new.checkpoint_ms,
            )
        state.write(StateKey.GROUPS, groups_record(known.values()))

    def _moved(self, offsets: Iterable[GroupOffsets]) -> Iterable[_Moved]:
        for group_offsets in offsets:
            for (topic, partition), committed in group_offsets.offsets.items():
                one = _Moved(group_offsets.group, topic, partition, committed)
                if self._settled.get(one.at) != committed.offset:
                    yield one

    def _look_up(self, offsets: Iterable[GroupOffsets]) -> None:
        now = time.monotonic()
        if self._copies is not None and now - self._mapped < _MAPPING_SECONDS:
            return
        self._copies = CopiedPlaces.of(self._flow, self._clusters.target.registry.read(), offsets)
        self._mapped = now

    def _remote(self, topic: str) -> str | None:
        """The copy, None where there is none or the task has to judge it first."""
        copies = self._copies
        if copies is None or topic in copies.gone:
            return None
        remote = copies.names.get(topic)
        known = None if remote is None else self._memory.copies.get(remote)
        return remote if known is None or remote is None or copies.ids.get(remote) == known else None

    def _write(self, places: list[tuple[_Moved, str]]) -> None:
        if not places:
            return
        now = time.monotonic()
        while len(self._marks) > 1 and now - self._marks[1][0] >= _TAIL_SECONDS:
            self._marks.popleft()
        _, ends = self._log.read_new(self._marks[0][1])
        self._marks.append((now, ends))
        with ExactTranslation(self._clusters, self._log) as translation:
            wanted = {(one.topic, one.partition, one.committed.offset) for one, _ in places}
            found = translation.by_map(wanted)
        written: list[Checkpoint] = []
        settled: dict[tuple[str, str, int], int] = {}
        for one, remote in places:
            answer = found[one.topic, one.partition, one.committed.offset]
            if not isinstance(answer, (NotReplicatedYet, Unmapped)):
                settled[one.at] = one.committed.offset
            new = self._checkpoint(one, remote, answer)
            if new is not None:
                written.append(new)
        if self._ended():
            return
        write_checkpoints(self._flow, written, self._clusters.target.writer())
        latency, at_ms = (time.monotonic() - self._asked) * 1000, self._clusters.now_ms()
        for group, count in Counter(checkpoint.group for checkpoint in written).items():
            self._samples[group] = GroupSample(
                group, count, count, checkpoint_latency_ms=round(latency, 1), checkpoint_ms=at_ms
            )
        self._before |= {_place(checkpoint): checkpoint for checkpoint in written}
        self._settled |= settled

    def _checkpoint(self, one: _Moved, remote: str, answer: Translation) -> Checkpoint | None:
        """What may be written without looking any further."""
        if not (isinstance(answer, NotReplicatedYet) or (isinstance(answer, Translated) and answer.exact)):
            return None
        if len(one.committed.metadata.encode()) > MAX_STRING_BYTES:
            return None
        new = Checkpoint(one.group, remote, one.partition, one.committed.offset, answer.offset, one.committed.metadata)
        before = self._before.get(_place(new))
        if before is not None and self._may_be_of_a_former_copy(before, one):
            return None
        return new if supersedes(new, before) else None

    def _may_be_of_a_former_copy(self, before: Checkpoint, one: _Moved) -> bool:
        try:
            newest = self._log.newest(one.topic, one.partition)
        except CorruptRecord:
            return True  # where the copy ends is not known
        return newest is not None and before.downstream > newest.downstream_end


def _place(one: Checkpoint) -> Place:
    return one.group, one.topic, one.partition
