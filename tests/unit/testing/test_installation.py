"""The two Spark packages that share a folder are whole and of one version, and a fault in them is told."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
from pathlib import Path

import pyspark
import pytest

from srm_common.testing import installation
from srm_common.testing.installation import spark_faults


def test_this_environment_is_whole() -> None:
    assert spark_faults() == []
    assert pyspark.__version__ == importlib.metadata.version("pyspark")


def fake(name: str, version: str, folder: Path, files: dict[str, bytes]) -> importlib.metadata.Distribution:
    """A real distribution folder as pip leaves it."""
    information = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    record = []
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.append(f"{path},sha256={digest},{len(content)}")
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(content)
    (information / "RECORD").write_text("\n".join(record) + "\n")
    return importlib.metadata.PathDistribution(information)


@pytest.mark.parametrize(
    ("versions", "overwritten", "word"),
    [
        (("4.2.0", "4.2.0"), False, None),
        (("4.3.0", "4.2.0"), False, "must be the same version"),
        (("4.2.0", "4.2.0"), True, "1 files of pyspark are missing or changed, pyspark/sql.py among them"),
    ],
)
def test_each_fault_is_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    versions: tuple[str, str],
    overwritten: bool,
    word: str | None,
) -> None:
    distributions = {
        "pyspark": fake("pyspark", versions[0], tmp_path, {"pyspark/sql.py": b"one"}),
        "pyspark-client": fake("pyspark-client", versions[1], tmp_path, {"pyspark/client.py": b"two"}),
    }
    if overwritten:
        (tmp_path / "pyspark/sql.py").write_bytes(b"other")
    monkeypatch.setattr(installation, "distribution", lambda name: distributions[name])
    faults = spark_faults()
    assert len(faults) == (0 if word is None else 1)
    assert word is None or word in faults[0]
