"""Environment variables with secrets: where this process finds them, and how Spark's processes are kept from inheriting
them.

Every process hands its environment down to its children: Spark's driver to its JVM, the JVM to its Python workers. So
the variables that a flow needs reach the driver in a file of mode 0600 in the run's folder; only its path is in the
environment, and Spark is started without the variables themselves. The driver removes the file as soon as it has read
it; if the run is killed before, the next one removes the folder. A driver on another machine (cluster mode) has an
environment of its own, and no file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from srm_common.errors import ConfigError

#: Names the file.
FILE = "SRM_SECRETS_FILE"
#: Lists the names that ``srm-spark-submit`` starts Spark without, separated by blanks.
WITHHELD = "SRM_WITHHELD"

#: Airflow's connections, variables and settings, and what other programs of this project are given. Spark needs none.
_OF_OTHERS = re.compile(
    r"AIRFLOW_CONN_.*|AIRFLOW_VAR_.*|AIRFLOW__.*"
    r"|SRM_AIRFLOW_(PASSWORD|TOKEN)|SRM_SERVE_(PASSWORD|TLS_KEY_PASSWORD)|SRM_DATABASE"
)
#: What every program may need, unless it sounds secret; a file of settings may refer to them (``${env:HOME}``).
_OF_EVERYBODY = re.compile(
    r"(?!.*(PASSW|SECRET|TOKEN|CREDENTIAL))"
    r"(PATH|HOME|USER|LOGNAME|SHELL|PWD|HOSTNAME|LANG|LC_.*|TZ|TMPDIR|LD_LIBRARY_PATH|KRB5.*|XDG_.*"
    r"|JAVA_.*|JDK_.*|SPARK_.*|PYSPARK_.*|PYTHON.*|HADOOP_.*|YARN_.*|KUBERNETES_.*|SRM_(CONFIG|CACHE|SPARK_ARCHIVE))"
)

#: Variables to which the configurations that this process has loaded refer.
_referred: set[str] = set()


def refer(names: Iterable[str]) -> None:
    """A configuration of this process takes values from these."""
    _referred.update(names)


def variable(name: str) -> str | None:
    """Its value, from the file that was handed over, otherwise from the environment.

    Raises:
        ConfigError: there should be a file, and it cannot be read.
    """
    path = os.environ.get(FILE)
    return (_handed_over(Path(path)) if path else {}).get(name, os.environ.get(name))


def referred() -> dict[str, str]:
    """What configurations of this process refer to and its children do not inherit. Raises :class:`ConfigError`."""
    values = {name: variable(name) for name in sorted(_referred) if not _OF_EVERYBODY.fullmatch(name)}
    return {name: value for name, value in values.items() if value is not None}


def withheld() -> list[str]:
    """Names of variables of this process that Spark is started without."""
    return sorted(
        name
        for name in os.environ
        if _OF_OTHERS.fullmatch(name) or (name in _referred and not _OF_EVERYBODY.fullmatch(name))
    )


@contextmanager
def none_inherited() -> Iterator[None]:
    """Processes started inside the block do not inherit :func:`withheld`; this one does without them, too."""
    kept = {name: os.environ.pop(name) for name in withheld()}
    try:
        yield
    finally:
        os.environ.update(kept)


def hand_over(file: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Write ``variables`` to a new file for another process; returns what its environment needs to find them.

    Raises:
        FileExistsError: there is such a file.
    """
    with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as opened:
        json.dump(dict(variables), opened)
    # A name with blanks would look like several in the list; no shell sets such a variable.
    names = {name for name in {*withheld(), *variables} if not re.search(r"\s", name)}
    return {FILE: str(file), WITHHELD: " ".join(sorted(names))}


@cache
def _handed_over(file: Path) -> Mapping[str, str]:
    """Read once; no other process may."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        file.unlink()
    except (OSError, ValueError) as error:
        # Not the parser's own message: it would repeat some of the text.
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise ConfigError(
            f"the variable {FILE} names a file that cannot be used ({reason}); the task that starts Spark makes it for "
            "one driver, so unset the variable elsewhere",
            file=str(file),
        ) from None
    return {str(name): str(value) for name, value in values.items()}
