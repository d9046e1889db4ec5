"""The rights of docs/acls.md one by one, and principals that have all of them but one, each with a flow of its own."""

from __future__ import annotations

import io
import logging
import re
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AclBinding, ResourceType

from srm_common.cli.main import run
from srm_common.testing import BrokerJvm, LocalKafka
from srm_common.testing.logins import client_properties
from tests.kafka.acl_commands import DOCS, bindings_of, create, documented
from tests.kafka.flows import Seen
from tests.kafka.group_commits import commit
from tests.kafka.records import produce, read_all


class Row(NamedTuple):
    """One right of the page, as it is written there for ``User:srm`` and a flow ``a->b``."""

    side: str
    binding: AclBinding

    def __str__(self) -> str:
        one = self.binding
        return f"{self.side}-{word_of(one.operation)}-{word_of(one.restype)}-{one.name}"

    def of(self, number: int, who: str = "") -> AclBinding:
        """The same for a principal and a flow of their own; ``who`` where it is not that of a login by PLAIN."""
        one = self.binding
        name = one.name
        if one.restype is not ResourceType.BROKER:
            name = re.sub(r"\b[ab]\b", lambda alias: f"{alias[0]}{number}", name)
        who = who or f"User:{user_of(number)}"
        return AclBinding(one.restype, name, one.resource_pattern_type, who, "*", one.operation, one.permission_type)


def word_of(value: object) -> str:
    """The library's types allow plain numbers and strings, too."""
    assert isinstance(value, Enum)
    return value.name


ROWS = [
    Row(side, binding)
    for side, variable in (("source", "A"), ("target", "B"))
    for command in documented("acls.md", variable)
    for binding in bindings_of(command)
]
#: What an operation brings along (``StandardAuthorizer``): without both, the smaller one is missed first.
IMPLIED = {
    "READ": "DESCRIBE",
    "WRITE": "DESCRIBE",
    "ALTER": "DESCRIBE",
    "ALTER_CONFIGS": "DESCRIBE_CONFIGS",
}
#: Topics that all flows share.
SHARED = ("heartbeats", "srm-meta.internal", "srm-control.internal")
FULL, READER = len(ROWS), len(ROWS) + 1
#: For a source that is only read; what it needs at the target besides.
READING = {
    "offset-syncs.topic.location": "target",
    "heartbeats.topic.location": "target",
}
WITH_ACLS = {"sync.topic.acls.enabled": "true"}


def _where_more_is_used(what: str, topic: str = "") -> list[Row]:
    """A row of the page's table of what needs more than the commands give: rights on one topic of the target, which is
    ``topic`` where the feature itself names it."""
    page = (DOCS / "acls.md").read_text()
    place = "that topic" if topic else "topic `([^`]+)`"
    found = re.search(rf"^\| [^|]*{re.escape(what)}[^|]*\| ([A-Za-z, ]+) on {place}", page, re.M)
    assert found is not None, what
    operations = " ".join(f"--operation {word}" for word in re.findall(r"[A-Z]\w+", found[1]))
    name = topic or found[2]
    command = f"kafka-acls.sh --bootstrap-server b --add --allow-principal User:srm {operations} --topic {name}"
    return [Row("target", acl_binding) for acl_binding in bindings_of(command)]


SYNCS = _where_more_is_used("`offset-syncs.topic.location = target`")
METRICS = _where_more_is_used("`metrics.topic.enabled`")
SERVICES = _where_more_is_used("`service.gateway.enabled`")
LETTERS = _where_more_is_used("`errors.deadletterqueue.topic.name`", "letters.a")
FURTHER = [*SYNCS, *METRICS, *SERVICES, *LETTERS]
#: The principals that have all rows but one of these, the one that has all of both but for offset syncs at the source,
#: the one that meets a state topic with settings that lose state, and the one that may see no group of the target.
WITH_FURTHER = range(READER + 1, READER + 1 + len(FURTHER))
USES_MORE, REPAIRS, SEES_NO_GROUPS = WITH_FURTHER.stop, WITH_FURTHER.stop + 1, WITH_FURTHER.stop + 2
#: The header of records that a transform of these flows fails on.
BAD = "bad"
USING_LETTERS = {
    "errors.tolerance": "all",
    "transforms": "mask",
    "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
    "transforms.mask.fields": "card",
    "transforms.mask.predicate": "marked",
    "predicates": "marked",
    "predicates.marked.type": "org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
    "predicates.marked.name": BAD,
    "value.format": "json",
}
USING_MORE = {"offset-syncs.topic.location": "target", "metrics.topic.enabled": "true"}


def user_of(number: int) -> str:
    return f"cell{number}"


LOGINS = {user_of(number): f"{number}-pw" for number in range(SEES_NO_GROUPS + 1)}


@dataclass
class Flow:
    """A flow, its principal, and the commands about it."""

    number: int
    kafkas: dict[str, LocalKafka]
    folder: Path
    capsys: pytest.CaptureFixture[str]
    written: int = 0

    @property
    def topic(self) -> str:
        return f"data{self.number}"

    @property
    def group(self) -> str:
        return f"group{self.number}"

    @property
    def copy(self) -> str:
        return f"a{self.number}.{self.topic}"

    def alias(self, letter: str) -> str:
        """``a`` is the source, ``b`` the target."""
        return f"{letter}{self.number}"

    def login(self, _side: str) -> Mapping[str, str]:
        """What the file says of the principal at one side."""
        return client_properties(user_of(self.number), LOGINS[user_of(self.number)])

    def configure(self, more: Mapping[str, str]) -> None:
        a, b = self.alias("a"), self.alias("b")
        properties: dict[str, object] = {
            "clusters": f"{a}, {b}",
            f"{a}->{b}.enabled": "true",
            f"{a}->{b}.topics": self.topic,
            f"{a}->{b}.groups": self.group,
            "tasks.max": 1,
            "replication.factor": -1,
            # Rights are of topics, and some sixty flows have state topics of their own.
            "offset.storage.partitions": 1,
            "status.storage.partitions": 1,
            "retry.timeout.seconds": 5,
            "sync.group.offsets.enabled": "true",
            "emit.checkpoints.interval.seconds": 1,
            # By ACL sync who may read the source may read the copies, the replicator as well.
            "sync.topic.acls.enabled": "false",
            "refresh.topics.interval.seconds": 0,
            "sync.topic.configs.interval.seconds": 0,
            **more,
        }
        for alias, side in ((a, "source"), (b, "target")):
            login = {"bootstrap.servers": self.kafkas[side].bootstrap_servers, **self.login(side)}
            properties |= {f"{alias}.{key}": value for key, value in login.items()}
        self.file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))

    @property
    def file(self) -> Path:
        return self.folder / f"flow{self.number}.properties"

    def begin(self) -> None:
        """Records and a group that has read some of them."""
        source = self.kafkas["source"]
        source.create_topic(self.topic, config={"retention.ms": "123456789"})
        self.write()
        commit(source, self.group, TopicPartition(self.topic, 0, 3))

    def write_bad(self) -> None:
        """A record that is no JSON, for a transform that looks into it."""
        bad = Seen(b"k", b"{", ((BAD, b""),), int(time.time() * 1000))
        produce(self.kafkas["source"], self.topic, 0, [bad])

    def write(self) -> None:
        # Of now: what is older than the topic's retention is gone within minutes.
        records = [Seen(b"k", b"value", (), int(time.time() * 1000))] * 10
        produce(self.kafkas["source"], self.topic, 0, records)
        self.written += len(records)

    def command(self, *words: str) -> tuple[int, str]:
        """Exit code, and all that was printed, warnings included."""
        warnings = io.StringIO()
        handler = logging.StreamHandler(warnings)  # outside tests, Python's handler of last resort
        handler.setLevel(logging.WARNING)
        log = logging.getLogger("srm_common")
        log.addHandler(handler)
        try:
            code = run(["--config", str(self.file), *words, "--flow", f"a{self.number}->b{self.number}"])
        finally:
            log.removeHandler(handler)
        printed = self.capsys.readouterr()
        return code, printed.out + printed.err + warnings.getvalue()

    def equal(self) -> bool:
        """Each record that was written came once, in its place, but for those that a transform fails on."""
        read = [
            {
                partition: [record.seen for record in records if BAD not in dict(record.seen.headers)]
                for partition, records in read_all(kafka, topic).items()
            }
            for kafka, topic in ((self.kafkas["source"], self.topic), (self.kafkas["target"], self.copy))
        ]
        return read[0] == read[1] and sum(map(len, read[0].values())) >= self.written


@contextmanager
def guarded_clusters(jvm: BrokerJvm) -> Iterator[dict[str, LocalKafka]]:
    """Brokers that give each principal all rights but its own row, and the last one all of them."""
    both = {side: LocalKafka(name=side, logins=LOGINS, jvm=jvm) for side in ("source", "target")}
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(LocalKafka.start, both.values()))
        for side, kafka in both.items():
            mine = [row for row in ROWS if row.side == side]
            create(kafka, [row.of(number) for number in range(FULL + 1) for row in mine if row is not _row(number)])
            reading = [row for row in mine if side == "target" or row.binding.name == "*"]
            create(kafka, [row.of(READER) for row in reading])
        create(both["target"], [row.of(READER) for row in SYNCS])
        for number in (*WITH_FURTHER, USES_MORE, REPAIRS):
            _give_more(both, number)
        for side, kafka in both.items():
            seeing = [row for row in ROWS if row.side == side and str(row) != "target-READ-GROUP-*"]
            create(kafka, [row.of(SEES_NO_GROUPS) for row in seeing])
        yield both
    finally:
        for kafka in both.values():
            kafka.close()


def _give_more(kafkas: Mapping[str, LocalKafka], number: int) -> None:
    """To a principal that uses more: all but its own row, and what the page says it can do without."""
    lacking = FURTHER[number - WITH_FURTHER.start] if number in WITH_FURTHER else None
    more = [] if number == REPAIRS else [row for row in FURTHER if row is not lacking]
    for side, kafka in kafkas.items():
        rows = [row for row in (*ROWS, *more) if row.side == side]
        if number == USES_MORE and side == "source":
            rows = [row for row in rows if not row.binding.name.startswith("mm2-offset-syncs")]
        create(kafka, [row.of(number) for row in rows])


def _row(number: int) -> Row | None:
    return None if number == FULL else ROWS[number]
