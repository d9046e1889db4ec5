"""On brokers that create each topic they are asked about, only what is meant to be created comes into being."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from srm_common.cli.main import cli, run
from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.names import CONTROL_TOPIC, META_TOPIC
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.runs.run_record import RunRecord
from srm_common.domain.topic_partition import TopicPartition as Place
from srm_common.kafka.client.link import ClusterLink
from srm_common.replication.slots.slot import copy_slot
from srm_common.testing import LocalKafka
from srm_common.usecases.runs.replicate import replicate
from tests.faults.live_groups import run_once
from tests.kafka.flows import flow_between, properties_of, read, write
from tests.kafka.group_commits import commit
from tests.kafka.markers import wait_for_markers
from tests.kafka.records import delete_topic, eventually

pytestmark = pytest.mark.kafka

#: What to ask of each command that only looks, or has --dry-run. ``{name}`` is a topic of the source, ``{alias}`` the
#: source, ``{file}`` a configuration file.
LOOKING = {
    "config check": ["--without-airflow", ""],
    "config explain": ["topics"],
    "config show": ["", "--written"],
    "config convert": ["{file}"],
    "plan": ["", "--out {folder}/plan.json", "--resume {name} --recreate {name}-gone"],
    "apply": ["--dry-run", "--dry-run --recreate {name}"],
    "topics": ["", "--all", "--list", "--explain", "--history", "--dry-run --add other", "--dry-run --remove {name}.*"],
    "groups": ["", "--list", "--explain", "--history", "--dry-run --add-exclude g", "--dry-run --reset"],
    "offsets": ["--group g", "--all-groups", "--group g --export --to {folder}/offsets.csv"],
    "offsets apply": ["--dry-run --group g", "--dry-run --all-groups --rewind"],
    "reverse-checkpointed-topics": ["--list", "--history", "--dry-run --add other", "--dry-run --reset"],
    "top": ["--once", "--once --live"],
    "status": [""],
    "heartbeats": [""],
    "source-offsets list": [""],
    "source-offsets delete": ["--dry-run --topic {name}.*"],
    "source-offsets reset": [f"--dry-run --topic {{name}}.* --to {to}" for to in ("earliest", "latest", "opposite")],
    "source-offsets set": [f"--dry-run --topic {topic} --partition 0 --offset 3" for topic in ("{name}", "absent")],
    "takeover": ["--dry-run --watch 0", "--dry-run --watch 0 --connect-group c --connector m --offsets-topic absent"],
    "handback": ["--dry-run", "--dry-run --connect-group c --connector m --offsets-topic absent"],
    "failover": ["--dry-run --wait 0", "--dry-run --wait 0 --no-last-pass"],
    "failback": ["--dry-run --wait 0", "--dry-run --wait 0 --no-last-pass"],
    "switch-direction": ["--dry-run --wait 0", "--dry-run --wait 0 --no-last-pass"],
    "rebind": ["--dry-run --alias {alias}", "--dry-run --alias target"],
    "check-copies": [""],
    "repair": ["--dry-run"],
}
#: The others, and why they are not among them.
NOT_LOOKING = {
    "run": "copies",
    "serve": "runs until it is stopped; what it reads is what these commands read",
    "pack": "knows of no cluster",
    "warmup": "knows of no cluster",
}


def commands_of(command: click.Command = cli, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command line that there is, without its options, as the parser knows them."""
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield " ".join(words), command
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for word in command.list_commands(context):
                found = command.get_command(context, word)
                assert found is not None
                yield from commands_of(found, (*words, word))


def options_of(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


def test_no_command_is_left_out() -> None:
    there = dict(commands_of())
    assert LOOKING.keys() | NOT_LOOKING.keys() == there.keys()
    for words, command in there.items():
        tried = any("--dry-run" in line for line in LOOKING.get(words, ()))
        assert tried == ("--dry-run" in options_of(command)), words


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[LocalKafka, LocalKafka]]:
    """A pair that nobody else makes topics on."""
    with LocalKafka(name="source") as source, LocalKafka(name="target") as target:
        yield source, target


def topics_of(kafka: LocalKafka) -> set[str]:
    """Without the broker's own."""
    return {topic for topic in kafka.admin().list_topics(timeout=60).topics if not topic.startswith("__")}


def contents_of(kafka: LocalKafka) -> dict[str, object]:
    """What a command could have changed: each topic's settings, and where its logs end."""
    topics = {
        topic: found for topic, found in kafka.admin().list_topics(timeout=60).topics.items() if topic[:2] != "__"
    }
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    logs = {TopicPartition(topic, number): latest for topic, found in topics.items() for number in found.partitions}
    ends = kafka.admin().list_offsets(logs) if logs else {}
    described = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    settings = kafka.admin().describe_configs(described) if described else {}
    return {
        **{f"{place.topic}-{place.partition}": answer.result().offset for place, answer in ends.items()},
        **{
            one.name: {key: str(entry.value) for key, entry in answer.result().items()}
            for one, answer in settings.items()
        },
    }


def test_commands_and_runs_create_what_is_theirs_and_no_more(
    clusters: tuple[LocalKafka, LocalKafka],
    name: str,
    configuration_file: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, target = clusters
    flow = flow_between(source, target, name)
    alias = flow.name.source
    both = {**properties_of(flow), f"target->{alias}.enabled": "true"}
    file = str(configuration_file(both))
    source.create_topic(name, 2)
    source.create_topic(f"{name}-gone", 2)
    write(source, name, [b"x"] * 10)
    write(source, f"{name}-gone", [b"x"] * 10)
    commit(source, "g", TopicPartition(name, 0, 5), TopicPartition(f"{name}-gone", 0, 5))

    def look_at_everything() -> None:
        before = contents_of(source), contents_of(target)
        there = dict(commands_of())
        for words, lines in LOOKING.items():
            chosen = ["--flow", str(flow.name)] if "--flow" in options_of(there[words]) else []
            for options in lines:
                line = [*words.split(), *chosen]
                line += options.format(name=name, alias=alias, file=file, folder=tmp_path).split()
                code = run(["--config", file, *line])
                shown = capsys.readouterr()
                # What a command looks for may be missing, which is when brokers are tempted; but it must have looked.
                assert code in (0, 1, 2, 4), f"{line}: {shown.out}{shown.err}"
                assert "Usage:" not in shown.err, f"{line}: {shown.err}"
                assert (contents_of(source), contents_of(target)) == before, line

    # Before the flow has anything, and when topics that it copied are gone on both sides.
    look_at_everything()
    wait_for_markers(flow, run_once(flow))
    copies = {f"{alias}.{name}", f"{alias}.{name}-gone"}
    assert topics_of(source) == {name, f"{name}-gone", f"mm2-offset-syncs.{flow.name.target}.internal"}
    state = {f"mm2-{kind}.{alias}.internal" for kind in ("offsets", "configs", "status", "offset-segments")}
    state |= {
        META_TOPIC,
        CONTROL_TOPIC,
        "heartbeats",
        f"srm-flow-state.{alias}.internal",
        f"{alias}.checkpoints.internal",
    }
    assert copies <= topics_of(target) <= copies | state

    delete_topic(source, f"{name}-gone")
    delete_topic(target, f"{alias}.{name}-gone")
    write(source, name, [b"x"] * 10)
    before = topics_of(source), topics_of(target)
    run_once(flow)
    look_at_everything()
    assert (topics_of(source), topics_of(target)) == before


def test_a_topic_that_a_producer_makes_in_the_midst_of_a_run_is_copied_whole(
    clusters: tuple[LocalKafka, LocalKafka], name: str
) -> None:
    source, target = clusters
    flow = flow_between(source, target, name)
    new = f"{name}-on-demand"
    source.create_topic(name)
    write(source, name, [b"x"] * 10)
    run_once(flow)
    runs: list[RunRecord] = []
    going = threading.Thread(target=lambda: runs.append(_copied(flow, max_seconds=8)))
    going.start()
    for number in range(60):
        # As producers do that know nothing of partitions.
        producer = Producer({"bootstrap.servers": source.bootstrap_servers})
        producer.produce(new, b"%d" % number)
        assert producer.flush(60) == 0
        write(source, name, [b"y"])
    going.join(300)
    (run,) = runs
    assert [one.error for one in run.partitions] == [None] * len(run.partitions)
    wait_for_markers(flow, run_once(flow))
    for topic, partitions in ((name, 1), (new, 3)):
        for partition in range(partitions):
            copied = read(target, f"{flow.name.source}.{topic}", partition)
            assert copied == read(source, topic, partition), topic
    assert new not in topics_of(target)


def _copied(flow: FlowSettings, max_seconds: float) -> RunRecord:
    options = RunOptions(uuid.uuid4().hex, max_seconds=max_seconds)
    return replicate(flow, options, lambda job, tasks: [copy_slot(job, task) for task in tasks])


def test_connections_ask_without_creating(clusters: tuple[LocalKafka, LocalKafka], name: str) -> None:
    source, _ = clusters
    cluster = flow_between(source, source, name).source
    with ClusterLink(cluster) as link:
        _, faults = link.end_offsets([Place(name, 0)], timeout_seconds=2.0)
        assert faults
    assert AdminClient(dict(cluster.confluent)).list_topics(name, timeout=60).topics[name].error is not None
    # The broker creates what it is asked for by others, and had the time for it.
    other = f"{name}-on-demand"
    AdminClient({"bootstrap.servers": source.bootstrap_servers}).list_topics(other, timeout=60)
    eventually(lambda: other in topics_of(source), 120, "the broker creates nothing")
    assert name not in topics_of(source)
