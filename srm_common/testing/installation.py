"""Checks that the installed PySpark is complete.

``apache-airflow-providers-apache-spark`` requires ``pyspark-client``, which installs its files into pyspark's own
folder. With different versions the later one wins silently: SQL works, Python functions die inside the JVM, and
``pip check`` finds nothing. Removing either also removes files of the other.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import PackageNotFoundError, PackagePath, distribution

from srm_common.errors import installing

PACKAGES = ("pyspark", "pyspark-client")


def spark_faults() -> list[str]:
    """One sentence for each fault; empty when pyspark may be used."""
    versions: dict[str, str] = {}
    for package in PACKAGES:
        try:
            versions[package] = distribution(package).version
        except PackageNotFoundError:
            continue
    if "pyspark" not in versions:
        return [f"pyspark is not installed; run: {installing('spark')}"]
    if len(set(versions.values())) > 1:
        both = ", ".join(f"{name} {version}" for name, version in versions.items())
        return [f"{both}: both write into the same folder and must be the same version"]
    faults = []
    for package in versions:
        files = [path for path in distribution(package).files or [] if path.suffix == ".py"]
        harmed = [path for path in files if not _is_intact(path)]
        if harmed:
            both = " ".join(f"{name}=={version}" for name, version in reversed(versions.items()))
            faults.append(
                f"{len(harmed)} files of {package} are missing or changed, {harmed[0]} among them; "
                f"run: pip install --force-reinstall --no-deps {both}"
            )
    return faults


def _is_intact(path: PackagePath) -> bool:
    """The file is there and has the hash that pip recorded."""
    if path.hash is None:
        return True
    try:
        digest = hashlib.new(path.hash.mode, path.read_binary()).digest()
    except FileNotFoundError:
        return False
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == path.hash.value
