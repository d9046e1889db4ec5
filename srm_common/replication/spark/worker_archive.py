"""The archive that Spark can send to workers without an installation (docs/spark.md)."""

from __future__ import annotations

import importlib.metadata
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import srm_common
from srm_common.errors import ConfigError
from srm_common.replication.spark.build import LEFT_OUT

#: Distributions that slots import, with all that these import; cryptography and cffi only where a key is given.
NEEDED = ("kafka-python", "crc32c", "cramjam", "cryptography", "cffi")
#: What tasks of a verification import besides.
NEEDED_TO_VERIFY = ("confluent-kafka",)
#: For logins by Kerberos, where it is installed here; the workers need the system's library (libgssapi_krb5), too.
KERBEROS = ("gssapi", "decorator")
#: For logins at Amazon MSK by AWS IAM, where the first of them is installed here.
MSK = (
    "aws-msk-iam-sasl-signer-python",
    "boto3",
    "botocore",
    "jmespath",
    "s3transfer",
    "python-dateutil",
    "six",
    "urllib3",
)
#: What flows with transforms need, and what makes them quick where it is installed here.
NEEDED_TO_TRANSFORM, QUICK = ("numpy", "pyarrow", "fastavro"), ("numba", "llvmlite")


def pack_worker_archive(path: Path, *, transforms: bool = False) -> int:
    """Write a ``.tar.gz`` with this package and what its slots import, as installed here; returns its size in bytes.

    ``transforms``: with what flows that change records need, some twenty times as large.

    Workers need the same Python minor version and processor architecture as this machine.

    Raises:
        ConfigError: a dependency is not installed here, or not by pip, or the file cannot be written.
    """
    files = sorted(_files(transforms), key=lambda pair: pair[1])
    begun = path.with_name(f"{path.name}.part")
    try:
        # Where packages are links into a store of this machine (Nix, Bazel, uv), workers need what these lead to.
        with tarfile.open(begun, "w:gz", compresslevel=6, dereference=True) as archive:
            for origin, name in files:
                archive.add(origin, name, recursive=False, filter=_anonymous)
        begun.replace(path)
    except OSError as error:
        begun.unlink(missing_ok=True)
        raise ConfigError(f"the archive {path} cannot be written: {error.strerror or error}") from error
    return path.stat().st_size


def _files(transforms: bool) -> Iterator[tuple[Path, str]]:
    """(where it is, its name in the archive)."""
    package = Path(srm_common.__file__).parent
    for origin in package.rglob("*"):
        within = origin.relative_to(package).parts
        if origin.is_file() and "__pycache__" not in within and within[0] not in LEFT_OUT:
            yield origin, str(origin.relative_to(package.parent))
    for needed in (*NEEDED, *NEEDED_TO_VERIFY, *(NEEDED_TO_TRANSFORM if transforms else ())):
        try:
            found = list(_files_of(importlib.metadata.distribution(needed)))
        except importlib.metadata.PackageNotFoundError as error:
            raise ConfigError(f"{needed} is not installed here; install srm-kafka with its dependencies") from error
        if not any(name.endswith((".py", ".so")) for _, name in found):
            # As where the system's package manager installed it, or where it is a link to its sources.
            raise ConfigError(f"{needed} is installed here without a list of its files; install it with pip")
        yield from found
    msk = MSK if any(importlib.metadata.distributions(name=MSK[0])) else ()
    for wanted in (*KERBEROS, *msk, *(QUICK if transforms else ())):
        with suppress(importlib.metadata.PackageNotFoundError):
            yield from _files_of(importlib.metadata.distribution(wanted))


def _files_of(distribution: importlib.metadata.Distribution) -> Iterator[tuple[Path, str]]:
    for file in distribution.files or ():
        # Scripts lie outside of the folder for packages; compiled files are created again.
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        origin = Path(str(file.locate()))
        if origin.is_file():
            yield origin, str(file)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without the users and groups of this machine."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
