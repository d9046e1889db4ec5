"""The broker's class-data archive: made once, and used by every broker that starts after that."""

from __future__ import annotations

from pathlib import Path

import pytest

from srm_common.testing import LocalKafka
from srm_common.testing.artifacts import DEFAULT_KAFKA_VERSION, class_archive, kafka_jars
from srm_common.testing.class_archive import kafka_class_archive

pytestmark = pytest.mark.kafka


def test_a_broker_takes_its_classes_from_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = kafka_jars()
    monkeypatch.setenv("SRM_CACHE", str(tmp_path / "cache"))
    here = tmp_path / "cache" / "kafka" / DEFAULT_KAFKA_VERSION
    here.parent.mkdir(parents=True)
    here.symlink_to(jars)
    made = kafka_class_archive()
    assert made == class_archive(DEFAULT_KAFKA_VERSION)
    assert sorted(path.name for path in here.parent.iterdir()) == sorted([DEFAULT_KAFKA_VERSION, made.name])
    assert kafka_class_archive() == made

    log = tmp_path / "classes"
    with LocalKafka(name="archived", java_options=[f"-Xlog:class+load:file={log}"]):
        pass
    kafkas = [line for line in log.read_text().splitlines() if " org.apache.kafka." in line]
    assert len([line for line in kafkas if "source: shared objects file (top)" in line]) > len(kafkas) / 2
