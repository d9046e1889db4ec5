"""Which build of this package the driver has, and that workers have the same.

Values are sent to workers in Python's pickle format, which fills the fields of some classes by their order alone, and
says nothing about fields that the receiver lacks. A worker of another version would copy by half of what it was told.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import srm_common
from srm_common.errors import ConfigError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    import pyarrow as pa

R = TypeVar("R")

#: Packages that no slot imports, and that are large: web pages. The archive for workers does not have them.
LEFT_OUT = ("rest",)
REMEDY = (
    "install the driver's version on each worker, or, if Spark ships an archive (spark.archives), create that again "
    "with srm-control pack, see docs/spark.md"
)

#: What refuses work, given why and the work's input.
Refusing = Callable[[str, Iterable[Any]], Iterator[Any]]


class SameBuild:
    """What is sent to workers: it arrives only if they have the driver's build of this package.

    The receiver compares before it looks at any field, so that nothing has been connected to, and answers with its
    refusal; the driver finds that by :func:`accepted`. It is a result, not an error: Spark would take an error for a
    lost worker, and repeat the task where another worker has the driver's build. Versions before this comparison lack
    this module, and fail because of that.
    """

    #: How a refusal fits among the results of this work.
    refusing: ClassVar[Refusing]

    def __reduce__(self) -> tuple[Any, ...]:
        # As PySpark does it: functions that workers cannot import travel by value.
        from pyspark import cloudpickle

        packed: bytes = cloudpickle.dumps((type(self), vars(self)))  # type: ignore[no-untyped-call]
        return _arrived, (this_build(), type(self).refusing, packed)


def _arrived(drivers: str, refusing: Refusing, packed: bytes) -> object:
    """The work, or what refuses it."""
    if drivers != this_build():
        sentence = f"Spark's workers have srm-kafka {this_build()}, the driver has {drivers}: {REMEDY}"
        return partial(refusing, sentence)
    kind, fields = pickle.loads(packed)
    work: object = object.__new__(kind)
    vars(work).update(fields)
    return work


def as_value(sentence: str, rows: Iterable[Any]) -> Iterator[str]:
    """Among plain values. ``rows``, which this build may not be able to read, stay unread."""
    yield sentence


def as_row(sentence: str, rows: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    """Among rows of one pickled value each."""
    import pyarrow as pa

    for _ in rows:
        pass
    yield pa.record_batch([pa.array([pickle.dumps(sentence)], pa.binary())], names=["result"])


def as_nothing(sentence: str, rows: Iterable[Any]) -> Iterator[Any]:
    """Where other work of the same worker refuses as well."""
    for _ in rows:
        pass
    yield from ()


def accepted(results: Iterable[R | str]) -> list[R]:
    """Results of work, none of which is a text.

    Raises:
        ConfigError: a worker has refused, since it has another build.
    """
    found = []
    for result in results:
        if isinstance(result, str):
            raise ConfigError(result)
        found.append(result)
    return found


@cache
def this_build() -> str:
    """Version and digest of the source files, since sources can change while the version stays. Takes 10 ms, once in a
    process."""
    folder: Path | Traversable = Path(srm_common.__file__).parent
    if not folder.is_dir():
        # In a zip file (spark.submit.pyFiles).
        from importlib.resources import files

        folder = files("srm_common")
    digest = hashlib.sha256()
    for name, source in _sources(folder, ""):
        digest.update(b"%s %d\n" % (name.encode(), len(source)))
        digest.update(source)
    return f"{srm_common.__version__} (sources {digest.hexdigest()[:12]})"


def _sources(folder: Path | Traversable, within: str) -> Iterator[tuple[str, bytes]]:
    """(name, contents) of each module that workers may have, in an order that does not depend on the disk."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        # Editors leave files such as ".#name.py".
        if entry.name.endswith(".py") and entry.name[:-3].isidentifier():
            yield within + entry.name, entry.read_bytes()
        elif entry.name not in ("__pycache__", *LEFT_OUT) and entry.is_dir():
            yield from _sources(entry, f"{within}{entry.name}/")
