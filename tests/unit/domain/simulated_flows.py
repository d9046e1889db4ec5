"""Clusters and flows in memory: what the use cases do with records of topics, each step at a moment of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings, GraphFlow
from srm_common.domain.policy import DefaultReplicationPolicy, ReplicationPolicy
from srm_common.domain.topics.copy_graph import Answer, CopyGraph
from srm_common.domain.topics.recording import RecordTopic, plan_records
from srm_common.domain.topics.selection import TopicDecision, select_topics
from srm_common.domain.topics.topic_records import Knowledge, TopicRecord, TopicRecords, TopicState

_TICK_MS = 1000


def with_topics(known: TopicRecords, records: Iterable[TopicRecord]) -> TopicRecords:
    """What a cluster's records are after ``records`` were written."""
    return TopicRecords.of([*known.topics.values(), *records], known.bindings.values())


@dataclass(frozen=True)
class Item:
    """One record: where it was written first, and the clusters it has been on, in order."""

    number: int
    origin: tuple[str, str]
    path: tuple[str, ...]


@dataclass
class SimulatedFlows:
    """Clusters by alias, all flows between them, and a clock. ``down`` are clusters that answer nobody."""

    aliases: Sequence[str]
    topics: dict[str, dict[str, list[Item]]] = field(default_factory=dict)
    records: dict[str, TopicRecords] = field(default_factory=dict)
    flows: dict[str, FlowSettings] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    offsets: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    plans: dict[str, list[RecordTopic]] = field(default_factory=dict)
    claims: dict[str, list[RecordTopic]] = field(default_factory=dict)
    now_ms: int = 1_000_000
    items: int = 0

    def __post_init__(self) -> None:
        for alias in self.aliases:
            self.topics[alias] = {}
            self.records[alias] = TopicRecords()

    def connect(
        self, *names: str, policy: type[ReplicationPolicy] = DefaultReplicationPolicy, **settings: object
    ) -> None:
        """Enable flows of one policy class, one file for all flows of the world."""
        for text in names:
            name = FlowName.parse(text)
            self.flows[text] = FlowSettings(
                name,
                ClusterSettings.plaintext(name.source, f"{name.source}:1"),
                ClusterSettings.plaintext(name.target, f"{name.target}:1"),
                enabled=True,
                policy=_made(policy, name.source),
                topics_exclude=(),
                **settings,  # type: ignore[arg-type]
            )
        place = {alias: number for number, alias in enumerate(self.aliases)}
        ordered = sorted(self.flows.values(), key=lambda one: (place[one.name.source], place[one.name.target]))
        graph = tuple(
            GraphFlow.of(flow_settings.name, flow_settings.policy, flow_settings.source, flow_settings.target)
            for flow_settings in ordered
        )
        self.flows = {text: replace(flow, graph=graph) for text, flow in self.flows.items()}

    def write(self, alias: str, topic: str, count: int = 1) -> None:
        """A producer writes; the topic is made where it is missing."""
        log = self.topics[alias].setdefault(topic, [])
        for _ in range(count):
            self.items += 1
            log.append(Item(self.items, (alias, topic), (alias,)))

    # ---- what a flow does

    def decide(self, flow: FlowSettings) -> tuple[list[TopicDecision], Knowledge]:
        knowledge = self._knowledge(flow, (flow.name.source, flow.name.target))
        decisions = select_topics(flow, self.topics[flow.name.source], knowledge)
        while asked := {alias for decision in decisions for alias in decision.ask}:
            knowledge = self._and(knowledge, asked)
            decisions = select_topics(flow, self.topics[flow.name.source], knowledge)
        return decisions, knowledge

    def plan(self, text: str) -> bool:
        """The first step of a refresh. Says whether there is anything to do."""
        flow = self.flows[text]
        if self._cut_off(flow) or text in self.claims:
            return False
        self.now_ms += _TICK_MS
        decisions, knowledge = self.decide(flow)
        self.plans[text] = plan_records(flow, knowledge, [(decision, None, "") for decision in decisions], {}, {})
        return bool(self.plans[text])

    def claim(self, text: str) -> None:
        """The second one: claim what is new."""
        flow = self.flows[text]
        if text not in self.plans or self._cut_off(flow):
            return
        self.now_ms += _TICK_MS
        actions, at = self.plans.pop(text), flow.name.target
        new = [
            replace(action.after, state=TopicState.CLAIMED, since_ms=self.now_ms) for action in actions if action.is_new
        ]
        self.records[at] = with_topics(
            self.records[at], [*new, *(action.after for action in actions if not action.is_new)]
        )
        self.claims[text] = [action for action in actions if action.is_new]

    def settle(self, text: str) -> None:
        """The last one: look again, and record or give up."""
        flow = self.flows[text]
        if text not in self.claims or self._cut_off(flow):
            return
        self.now_ms += _TICK_MS
        at = flow.name.target
        for action in self.claims.pop(text):
            knowledge = self._knowledge(flow, (flow.name.source, at))
            while (
                conflict := CopyGraph(flow, knowledge).conflict(action.after.upstream_topic, action.topic)
            ) is not None and conflict.ask:
                knowledge = self._and(knowledge, conflict.ask)
            if conflict is None:
                self.records[at] = with_topics(self.records[at], [action.after])
                self.topics[at].setdefault(action.topic, [])
            elif conflict.answer is Answer.REFUSE:
                records = TopicRecords(
                    {key: one for key, one in self.records[at].topics.items() if key != action.after.key},
                    self.records[at].bindings,
                )
                self.records[at] = with_topics(records, [action.before] if action.before else [])

    def copy(self, text: str) -> int:
        """One run: everything that is new of every recorded topic. Returns how many records were copied."""
        flow = self.flows[text]
        if self._cut_off(flow):
            return 0
        copied = 0
        decisions, _ = self.decide(flow)
        for decision in decisions:
            record = self.records[flow.name.target].find(text, decision.topic)
            if not decision.accepted or record is None or record.state is not TopicState.REPLICATING:
                continue
            log = self.topics[flow.name.source][decision.topic]
            place = (text, decision.topic)
            for item in log[self.offsets[place] :]:
                arrived = replace(item, path=(*item.path, flow.name.target))
                self.topics[flow.name.target][record.downstream_topic].append(arrived)
                copied += 1
            self.offsets[place] = len(log)
        return copied

    def refresh(self, *names: str) -> None:
        for name in names:
            self.plan(name)
            self.claim(name)
            self.settle(name)

    def run(self, *names: str) -> int:
        """Refresh and copy with these flows (all of them by default) until nothing happens; returns the rounds."""
        for rounds in range(1, 60):
            busy = False
            for name in names or tuple(self.flows):
                busy |= self.plan(name)
                self.claim(name)
                self.settle(name)
                busy |= self.copy(name) > 0
            if not busy:
                return rounds
        raise AssertionError("the flows go on copying for ever")

    # ---- what is there

    def copied(self) -> set[str]:
        """Flow and topic of everything that is recorded as being copied."""
        return {
            f"{record.flow}:{record.upstream_topic}"
            for records in self.records.values()
            for record in records.topics.values()
            if record.state is TopicState.REPLICATING
        }

    def refusals(self, text: str) -> dict[str, TopicDecision]:
        return {decision.topic: decision for decision in self.decide(self.flows[text])[0] if not decision.accepted}

    def check(self) -> None:
        """No record came back to a cluster where it was, and none is twice in a topic."""
        for alias, topics in self.topics.items():
            for topic, log in topics.items():
                numbers = [item.number for item in log]
                assert len(numbers) == len(set(numbers)), f"{topic} on {alias} has records twice: {log}"
                for item in log:
                    assert len(item.path) == len(set(item.path)), f"{topic} on {alias}: {item} came back"

    # ---- inside

    def _knowledge(self, flow: FlowSettings, aliases: Iterable[str]) -> Knowledge:
        return Knowledge(
            f"id-{flow.name.source}",
            f"id-{flow.name.target}",
            {alias: self.records[alias] for alias in aliases},
            {},
            self.topics[flow.name.target].keys(),
            self.now_ms,
        )

    def _and(self, knowledge: Knowledge, aliases: Iterable[str]) -> Knowledge:
        wanted = set(aliases)
        return replace(
            knowledge,
            records={**knowledge.records, **{alias: self.records[alias] for alias in wanted - self.down}},
            unreadable={**knowledge.unreadable, **{alias: "it is down" for alias in wanted & self.down}},
        )

    def _cut_off(self, flow: FlowSettings) -> bool:
        return flow.name.source in self.down or flow.name.target in self.down


def _made(policy: type[ReplicationPolicy], source: str) -> ReplicationPolicy:
    if issubclass(policy, DefaultReplicationPolicy) and hasattr(policy, "source_alias"):
        return policy(source_alias=source)  # type: ignore[call-arg]
    return policy()
