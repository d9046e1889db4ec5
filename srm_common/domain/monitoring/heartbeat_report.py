"""The heartbeats that a flow has copied to its target: the age of the newest, and its latency."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from srm_common.domain.amount import duration, latency
from srm_common.domain.flow import ARROW, FlowSettings
from srm_common.domain.flow.heartbeats import Heartbeat, beat_seconds, silent_after_seconds
from srm_common.domain.runs.run_record import RunRecord

#: Clocks that are synchronized differ by less.
_AHEAD_MS = 60_000


@dataclass(frozen=True, slots=True)
class Hop:
    """One flow that a heartbeat came by. ``latency_ms`` is from its arrival at ``source`` (for the first hop: from
    its writing) to its arrival at ``target``, None where that is not known; ``fault`` then says why."""

    source: str
    target: str
    latency_ms: int | None = None
    fault: str | None = None

    def __str__(self) -> str:
        flow = f"{self.source}{ARROW}{self.target}"
        return f"{flow} {self.fault}" if self.latency_ms is None else f"{flow} {latency(self.latency_ms)}"


@dataclass(frozen=True, slots=True)
class CopiedHeartbeat:
    """The newest heartbeat in ``topic``, a copy of the heartbeats of another cluster.

    ``path`` are the clusters it came through, the one that it was written on first and the target last. ``beat`` is
    None while the topic is empty. ``arrived_ms`` (epoch milliseconds) is when the chunk was committed that brought it,
    None if the offset map does not have it. ``by_hop`` is empty if it was not requested.
    """

    topic: str
    path: tuple[str, ...]
    beat: Heartbeat | None = None
    arrived_ms: int | None = None
    by_hop: tuple[Hop, ...] = ()

    @property
    def origin(self) -> str:
        return self.path[0]

    @property
    def hops(self) -> int:
        return len(self.path) - 1

    @property
    def latency_ms(self) -> int | None:
        """From its writing on the first cluster to its arrival on the last; negative where their clocks differ by
        more than that."""
        return None if self.beat is None or self.arrived_ms is None else self.arrived_ms - self.beat.timestamp_ms

    def to_json(self, now_ms: int) -> dict[str, Any]:
        beat = self.beat
        return {
            "topic": self.topic,
            "cluster": self.origin,
            "path": list(self.path),
            "hops": self.hops,
            "written_by": None if beat is None else f"{beat.source}{ARROW}{beat.target}",
            "written_ms": None if beat is None else beat.timestamp_ms,
            "age_ms": None if beat is None else now_ms - beat.timestamp_ms,
            "arrived_ms": self.arrived_ms,
            "latency_ms": self.latency_ms,
            "by_hop": [
                {"flow": f"{hop.source}{ARROW}{hop.target}", "latency_ms": hop.latency_ms, "fault": hop.fault}
                for hop in self.by_hop
            ],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` made. Raises KeyError, TypeError or ValueError on anything else."""
        beat = None
        if found["written_by"] is not None:
            source, _, target = found["written_by"].partition(ARROW)
            beat = Heartbeat(source, target, int(found["written_ms"]))
        hops = []
        for hop in found["by_hop"]:
            source, _, target = hop["flow"].partition(ARROW)
            hops.append(Hop(source, target, hop["latency_ms"], hop["fault"]))
        return cls(found["topic"], tuple(found["path"]), beat, found["arrived_ms"], tuple(hops))


@dataclass(frozen=True)
class HeartbeatReport:
    """The heartbeats that one flow has brought, those of its source first.

    ``every_ms`` and ``silent_after_ms`` are the flow's own pace; the latter is None if no heartbeats are expected.
    ``fault`` says why nothing could be queried. ``run_started_ms`` and ``run_ended_ms`` are of the flow's newest run,
    if that is known; the latter is None while it runs.
    """

    flow: str
    source: str
    now_ms: int
    every_ms: int
    silent_after_ms: int | None
    copied: tuple[CopiedHeartbeat, ...] = ()
    fault: str | None = None
    run_started_ms: int | None = None
    run_ended_ms: int | None = None

    @property
    def newest(self) -> CopiedHeartbeat | None:
        """That of the flow's source."""
        return next(
            (heartbeat for heartbeat in self.copied if heartbeat.hops == 1 and heartbeat.beat is not None), None
        )

    @property
    def age_ms(self) -> int | None:
        """Age of the source's newest heartbeat: everything written there before it has arrived."""
        newest = self.newest
        return None if newest is None or newest.beat is None else self.now_ms - newest.beat.timestamp_ms

    @property
    def silent_ms(self) -> int | None:
        """The part of :attr:`age_ms` that was not within the newest run: what a run copies ends where the source ended
        when its last pass began, however many heartbeats are written until the pass is over."""
        age = self.age_ms
        if age is None or self.run_started_ms is None:
            return age
        ended = self.now_ms if self.run_ended_ms is None else self.run_ended_ms
        return age - max(0, ended - max(self.run_started_ms, self.now_ms - age))

    @property
    def silence(self) -> str | None:
        """Why the flow counts as silent, in one sentence; None when it does not, or none are to be expected."""
        if self.silent_after_ms is None or self.fault is not None:
            return None
        age, silent = self.age_ms, self.silent_ms
        if age is None or silent is None:
            return (
                f"no heartbeat of '{self.source}' has been copied by {self.flow}; one is due every "
                f"{duration(self.every_ms)}: check the flow's runs, and the log of its task emit_heartbeat"
            )
        if silent <= self.silent_after_ms:
            return None
        return (
            f"the newest heartbeat of '{self.source}' copied by {self.flow} is {duration(age)} old, although one is "
            f"due every {duration(self.every_ms)}: the flow does not run, does not copy, or cannot write heartbeats"
        )

    def sentence(self) -> str | None:
        """A sentence about a problem with heartbeats; None if there is none."""
        if self.fault is not None:
            return f"Heartbeats are not known: {self.fault}"
        newest, age = self.newest, self.age_ms
        if self.silence is not None or newest is None or age is None:
            return self.silence
        if age < -_AHEAD_MS:
            return (
                f"The newest heartbeat of '{self.source}' has arrived; the clock of its writer is {duration(-age)} "
                "ahead, so its age is unknown"
            )
        on_its_way = newest.latency_ms
        way = "" if on_its_way is None else f", after {latency(on_its_way)} on its way"
        return f"The newest heartbeat of '{self.source}' was written {duration(age)} ago and has arrived{way}"

    def to_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "source": self.source,
            "now_ms": self.now_ms,
            "silent": self.silence is not None,
            "sentence": self.sentence(),
            "age_ms": self.age_ms,
            "every_ms": self.every_ms,
            "silent_after_ms": self.silent_after_ms,
            "fault": self.fault,
            "run_started_ms": self.run_started_ms,
            "run_ended_ms": self.run_ended_ms,
            "heartbeats": [heartbeat.to_json(self.now_ms) for heartbeat in self.copied],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` made. Raises KeyError, TypeError or ValueError on anything else."""
        return cls(
            found["flow"],
            found["source"],
            int(found["now_ms"]),
            int(found["every_ms"]),
            found["silent_after_ms"],
            tuple(CopiedHeartbeat.from_json(one) for one in found["heartbeats"]),
            found["fault"],
            found.get("run_started_ms"),
            found.get("run_ended_ms"),
        )


def make_heartbeat_report(
    flow: FlowSettings,
    now_ms: int,
    copied: Sequence[CopiedHeartbeat] = (),
    fault: str | None = None,
    run: RunRecord | None = None,
) -> HeartbeatReport:
    """The report of a flow, whose newest run is ``run``; ``copied`` in any order."""
    silent = silent_after_seconds(flow)
    return HeartbeatReport(
        str(flow.name),
        flow.name.source,
        now_ms,
        int(beat_seconds(flow) * 1000),
        None if silent is None else int(silent * 1000),
        tuple(sorted(copied, key=lambda one: (one.hops, one.topic))),
        fault,
        None if run is None else run.started_ms,
        None if run is None else run.finished_ms,
    )


def by_distance(heartbeats: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """For metrics, whose labels have no path: of those that came from a cluster over as many hops, the one that was
    written last. ``heartbeats`` as :meth:`CopiedHeartbeat.to_json` makes them."""
    found: dict[tuple[str, int], Mapping[str, Any]] = {}
    for one in heartbeats:
        place = one["cluster"], one["hops"]
        if place not in found or (one["written_ms"] or 0) > (found[place]["written_ms"] or 0):
            found[place] = one
    return list(found.values())
