from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from srm_common.domain.flow import FlowName
from srm_common.settings_files.checks import findings, notices
from srm_common.settings_files.configuration import load_configuration
from srm_common.settings_files.findings import Finding, FindingCode, Severity

Check = Callable[[str], list[Finding]]
BASE = "clusters = A, B, C\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nC.bootstrap.servers = c:1\n"
BASE += "A->B.enabled = true\nA->B.topics = x\nC->B.enabled = true\n"
LINE = 8


@pytest.fixture
def check(tmp_path: Path) -> Check:
    def run(text: str) -> list[Finding]:
        path = tmp_path / "srm.properties"
        path.write_text(text, encoding="utf-8")
        return list(findings(load_configuration(path)))

    return run


def test_nothing_to_say_about_a_right_file(check: Check) -> None:
    text = BASE + (
        "tasks.max = 3\nworkers.offset.storage.replication.factor = 1\nconnectors.topics.exclude = t\n"
        "B.exactly.once.source.support = disabled\nA.consumer.auto.offset.reset = latest\n"
        "A->B.source.consumer.auto.offset.reset = latest\nA->B.worker.offset.storage.replication.factor = 1\n"
        "security.protocol = PLAINTEXT\nA.admin.client.dns.lookup = use_all_dns_ips\n"
        "A->B.source.cluster.bootstrap.servers = proxy:1\nA->B.target.producer.client.dns.lookup = use_all_dns_ips\n"
        "config.providers = file\nconfig.providers.file.param.allowed.paths = /x\n"
    )
    assert check(text) == []


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("task.max = 3", "is unknown and has no effect; did you mean tasks.max?"),
        ("A->B.tasks_max = 3", "is unknown and has no effect; did you mean A->B.tasks.max?"),
        ("A->B.topic.exclude = 3", "is unknown and has no effect; did you mean A->B.topics.exclude?"),
        ("A->B.connectors.topics = 3", "is unknown and has no effect; did you mean A->B.topics?"),
        ("flarp = 3", "is unknown and has no effect"),
        ("B.topics = t", "has no effect at this level; write topics or A->B.topics"),
        ("enabled = true", "has no effect at this level; write A->B.enabled"),
        ("workers.topics = t", "has no effect at this level; write topics or A->B.topics"),
        ("connectors.offset.storage.partitions = 3", "has no effect at this level; write offset.storage.partitions or "
         "A->B.offset.storage.partitions or B.offset.storage.partitions"),
        ("A->B.worker.topics = t", "has no effect at this level; write topics or A->B.topics"),
        ("A.tasks.max = 3", "has no effect: it is about flows, and no flow leads to A; write tasks.max or "
         "A->B.tasks.max or B.tasks.max"),
        ("B.consumer.auto.offset.reset = latest", "has no effect: it is about flows, and no flow begins at B; write "
         "consumer.auto.offset.reset or A->B.consumer.auto.offset.reset"),
        ("bootstrap.servers = h:1", "has no effect; write A.bootstrap.servers and so on"),
        ("A->B.bootstrap.servers = h:1", "has no effect; write A.bootstrap.servers, or "
         "A->B.source.cluster.bootstrap.servers for this flow alone"),
        ("A.ssl.truststore.locaton = x", "is unknown and has no effect; did you mean A.ssl.truststore.location?"),
        ("A.bootstrap.server = x", "is unknown and has no effect; did you mean"),
        ("value.format = json", "has no effect, as there are no transforms of fields"),
        ("D.bootstrap.servers = x", "has no effect: 'D' is not one of the clusters (A, B, C)"),
        ("A->BB.topics = x", "has no effect: 'BB' is not one of the clusters (A, B, C)"),
    ],
)  # fmt: skip
def test_a_key_that_does_nothing_is_told_with_the_one_that_acts(check: Check, line: str, text: str) -> None:
    (finding,) = check(BASE + line + "\n")
    assert finding.severity is Severity.WARNING
    assert finding.place.endswith(f"srm.properties:{LINE}")
    assert finding.key == line.partition(" ")[0]
    assert finding.text.startswith(text)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("key.converter.schemas.enable = false", "has no effect here: Records are copied unopened."),
        ("A->B.producer.override.retry.backoff.ms = 5", "has no effect here: `request.timeout.ms` and "),
        (
            "A.consumer.enable.auto.commit = true",
            "has no effect here: Offsets are committed in the same transaction as the data.",
        ),
        (
            "B.offset.flush.timeout.ms = 5",
            "has no effect here: Offsets are committed in the same transaction as the data.",
        ),
        ("errors.log.include.messages = true", "has no effect here: A failing partition is retried"),
        ("A.ssl.protocol = TLSv1.3", "has no effect here: it is about TLS or logins inside Java"),
        ("A->B.topics.blacklist = t", "is the older name of A->B.topics.exclude; both act"),
        ("streams.replication.manager.config = x", "has no effect here: Its entries are not read; `srm-control config"),
        ("B->A = false", "is read as B->A.enabled; write that"),
    ],
)
def test_a_key_without_effect_here_says_why(check: Check, line: str, text: str) -> None:
    (finding,) = check(BASE + line + "\n")
    assert finding.severity is Severity.NOTE
    assert finding.text.startswith(text)


def test_the_converter_of_headers_has_an_effect_where_a_transform_makes_headers(check: Check) -> None:
    line = "header.converter = org.apache.kafka.connect.storage.StringConverter\n"
    (finding,) = check(BASE + line)
    assert finding.text.startswith("has no effect here: Headers are copied as they are.")
    inserted = (
        "A->B.transforms.h.type = InsertHeader\nA->B.transforms.h.header = h\nA->B.transforms.h.value.literal = 7\n"
    )
    assert check(BASE + line + "A->B.transforms = h\n" + inserted) == []


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("flarp = x", FindingCode.UNKNOWN_KEY),
        ("consumer.flarp = x", FindingCode.UNKNOWN_KEY),
        ("A.ssl.truststore.locaton = x", FindingCode.UNKNOWN_KEY),
        (
            "config.providers = p\nconfig.providers.p.class = EnvVarConfigProvider\nconfig.providers.p.flarp = x",
            FindingCode.UNKNOWN_KEY,
        ),
        ("config.providers.q.class = x", FindingCode.NO_EFFECT),
        ("D.bootstrap.servers = x", FindingCode.NO_EFFECT),
        ("A.ssl.protocol = TLSv1.3", FindingCode.NO_EFFECT),
        ("errors.log.enable = true", FindingCode.NO_EFFECT),
        ("key.converter = org.apache.kafka.connect.converters.ByteArrayConverter", FindingCode.REDUNDANT),
        ("A->B.topics.blacklist = t", FindingCode.RENAMED_KEY),
        ("B->A = false", FindingCode.RENAMED_KEY),
    ],
)
def test_a_finding_has_a_code(check: Check, line: str, code: FindingCode) -> None:
    assert check(BASE + line + "\n")[-1].code is code


def test_of_two_spellings_the_one_that_counts_is_named(check: Check) -> None:
    text = BASE + "A->B = false\nA->B.topics.exclude = t\nA->B.topics.blacklist = u\ntasks.max = 3\ntasks.max = 4\n"
    found = {finding.key: finding.text for finding in check(text)}
    assert found["A->B"].startswith("has no effect: A->B.enabled in ")
    assert found["A->B.topics.blacklist"].startswith("has no effect: A->B.topics.exclude in ")
    assert found["tasks.max"] == "has no effect: it is set again in line 12, which counts"


def test_a_flow_is_told_of_its_own_keys_its_clusters_and_all_flows(tmp_path: Path) -> None:
    path = tmp_path / "srm.properties"
    path.write_text(BASE + "A->B.topicz = t\nC->B.topicz = t\nC.flarp = 1\nA.tasks.max = 1\nflarp = 1\nname = x\n")
    found = notices(load_configuration(path))
    assert [notice.key for notice in found[FlowName("A", "B")]] == ["A->B.topicz", "A.tasks.max", "flarp"]
    assert [notice.key for notice in found[FlowName("C", "B")]] == ["C->B.topicz", "C.flarp", "flarp"]
