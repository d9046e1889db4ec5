"""What is checked before a run copies anything: other replicators, the dead letter topic, progress that was lost."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable

from srm_common.domain.cluster import MAX_MESSAGE_BYTES
from srm_common.domain.flow import names
from srm_common.domain.flow.names import StateKey
from srm_common.domain.flow.principals import ANONYMOUS, Right, login_principal
from srm_common.domain.flow.start_position import StartKind, StartRules
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import Installation, other_installation
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.selection import CopiedTopic
from srm_common.domain.topics.state_topics import heartbeats, state_topics
from srm_common.domain.transforms.faults import DeadLetterTopic, ErrorHandling
from srm_common.errors import ClusterError, ConfigError, SrmError, StateTopicInvalid, StateUnavailable
from srm_common.kafka.state.sync_log import offset_syncs
from srm_common.kafka.transactions.active_writers import mirror_maker_workers
from srm_common.usecases.flows.flow_clusters import FlowClusters
from srm_common.usecases.runs.lost_memory import recorded_topics

_LOG = logging.getLogger(__name__)
_DEAD_LETTERS = "errors.deadletterqueue.topic.name"


def competing_runs(clusters: FlowClusters, run: RunOptions) -> list[str]:
    """A message for each sign of a competing replicator; announces this run in the flow's state.

    Runs without an installation, as those of the command line, are not recorded and get no notes.

    Raises:
        UnreachableCluster, AccessDenied, ClusterError: as the target answers where the flow's state is.
    """
    flow, store = clusters.flow, clusters.state
    try:
        signs = mirror_maker_workers(flow, pool=clusters.target.links)
    except ClusterError as error:
        # A broker that is just away: no reason not to copy.
        _LOG.info("%s: it is unknown whether MirrorMaker 2 is running: %s", flow.name, error)
        signs = []
    notes = [f"{sign}, since both copy, and then run: srm-control takeover" for sign in signs]
    if run.installation is not None:
        own = Installation(run.installation, socket.gethostname(), run.run_id, clusters.now_ms())
        other = other_installation(flow.name, Installation.from_json(store.read(StateKey.INSTALLATION)), own)
        notes += [other] if other is not None else []
        store.write(StateKey.INSTALLATION, own.to_json())
    return notes


def new_owner(clusters: FlowClusters) -> str | None:
    """Who took the flow from a run of ours that has ended, in one sentence; None if that is unknown."""
    try:
        found = list(clusters.state.read_all(prefix=StateKey.DRIVER).values())
    except SrmError:
        # The reason to stop counts more than who it was.
        return None
    if not found:
        return None
    who = found[-1]
    installation = f" of installation '{who['installation']}'" if who.get("installation") else ""
    return (
        f"another run took over flow {clusters.flow.name}: '{who['run_id']}'{installation} on {who['host']} (process "
        f"{who['pid']}); this one stopped and changed nothing more"
    )


def error_handling(clusters: FlowClusters, topics: Iterable[CopiedTopic]) -> ErrorHandling:
    """What the flow does with records that a transform cannot handle.

    Raises:
        ConfigError: the dead letter topic does not exist, or is another topic of the flow; the message names both.
        UnreachableCluster, AccessDenied, ClusterError: the target cannot be asked about it.
    """
    flow = clusters.flow
    tolerate, name = flow.errors_tolerance == "all", flow.dead_letter_topic
    if not name:
        return ErrorHandling(tolerate, flow.errors_log_enable)
    setting = f"{_DEAD_LETTERS} = {name} of flow {flow.name}"
    copy = next((topic for topic in topics if topic.downstream == name), None)
    if copy is not None:
        raise ConfigError(f"{setting} is the copy of {copy.upstream}; name another topic")
    if any(topic.name == name and topic.location == "target" for topic in (*state_topics(flow), heartbeats(flow))):
        raise ConfigError(f"{setting} is one of its state topics; name another topic")
    admin = clusters.target.admin
    facts = admin.describe_topics([name]).get(name)
    settings = admin.topic_settings([name]).get(name) if facts is not None else None
    if facts is None or settings is None:
        text = (
            f"{setting} does not exist on {flow.name.target}; create it, or have it created "
            f'by: srm-control apply --flow "{flow.name}"'
        )
        if login_principal(flow.target) != ANONYMOUS:
            text += f"; for that {Right('Create', 'topic', name).missing(flow.target)}"
        raise ConfigError(text)
    limit = settings.get("max.message.bytes")
    most = MAX_MESSAGE_BYTES if limit is None or limit.value is None else int(limit.value)
    letters = DeadLetterTopic(name, facts.partitions, most, flow.errors_deadletterqueue_context_headers_enable)
    return ErrorHandling(tolerate, flow.errors_log_enable, letters)


def refuse_missing_offsets(clusters: FlowClusters, topics: Iterable[CopiedTopic], *, stateless: bool) -> None:
    """Call it for a flow that has neither source offsets nor an offset map.

    MirrorMaker 2's offset syncs tell that it copied a partition; that there is no progress means that it was lost, or
    that its connectors keep offsets under names of their own. Without syncs, records in a copy tell it, too, if nobody
    else is to write there: the copy has a name of its own, and no other flow copies into it.

    Args:
        stateless: whether the flow remembers nothing at all. What it remembers is written before it copies anything:
            with that, what is in a copy may be a chunk that was aborted.

    Raises:
        StateTopicInvalid: a copy holds records that were copied.
        StateUnavailable: a copy does not say whether it holds any.
        UnreachableCluster, AccessDenied, ClusterError: as the clusters answer.
    """
    flow = clusters.flow
    topics = list(topics)
    synced, alone = _synced(clusters), _copied_alone(clusters, topics) if stateless else set()
    copies = {
        TopicPartition(topic.downstream, number): TopicPartition(topic.upstream, number)
        for topic in topics
        for number in range(topic.partitions)
        if (topic.upstream, number) in synced or topic.upstream in alone
    }
    if not copies:
        return
    with clusters.target.link("driver") as link:
        ends, faults = link.end_offsets(copies, timeout_seconds=flow.patience_seconds)
        starts, more_faults = link.start_offsets(copies, timeout_seconds=flow.patience_seconds)
    known = sorted(copies[place] for place, end in ends.items() if end > starts.get(place, end))
    unknown = faults | more_faults
    if unknown and not known:
        raise StateUnavailable(
            f"flow {flow.name} has no progress, and it is currently unknown whether its copies hold records: "
            f"{next(iter(unknown.values()))}; run again"
        )
    if known:
        more = "" if len(known) == 1 else f" and {len(known) - 1} more partitions"
        copied = (
            f"MirrorMaker 2 has copied {known[0]}"
            if known[0] in synced
            else f"the copy of {known[0]} already holds records"
        )
        raise StateTopicInvalid(
            f"flow {flow.name} has no progress, although {copied}{more}: "
            f"its offsets were lost, or are stored under other names, and continuing would copy everything again; "
            f"take the flow over with: srm-control takeover --flow '{flow.name}' (to copy from the start anyway: "
            f"srm-control source-offsets reset --topic '.*' --to earliest)"
        )


def _copied_alone(clusters: FlowClusters, topics: Iterable[CopiedTopic]) -> set[str]:
    """The upstream topics that begin at their start and have a copy to which nobody but the flow writes."""
    flow = clusters.flow
    rules = StartRules(flow.start_positions, flow.auto_offset_reset)
    copied = recorded_topics(clusters)
    return {
        topic.upstream
        for topic in topics
        if topic.downstream != topic.upstream
        and not topic.heartbeats
        and rules.of(topic.upstream)[0].kind is StartKind.EARLIEST
        and copied.feeders(topic.downstream) == (str(flow.name),)
    }


def _synced(clusters: FlowClusters) -> set[TopicPartition]:
    """The partitions of which there is an offset sync."""
    flow = clusters.flow
    topic = names.offset_syncs_topic(flow)
    cluster = clusters.source if flow.offset_syncs_topic_location == "source" else clusters.target
    reader = cluster.clients.reader.with_patience(
        timeout_seconds=flow.admin_timeout_ms / 1000, patience_seconds=flow.patience_seconds
    )
    records = reader.read(topic) if reader.partitions(topic) else ()
    return {TopicPartition(sync.topic, sync.partition) for sync in offset_syncs(records)}
