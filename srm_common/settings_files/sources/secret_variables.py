"""Environment variables with secrets: where this process finds them, and how Spark's processes are kept from inheriting
them.

Every process hands its environment down to its children: Spark's driver to its JVM, the JVM to its Python workers. So
the variables that a flow needs reach the driver in a file of mode 0600 in the run's folder; only its path is in the
environment, and Spark is started without the variables themselves. The driver removes the file as soon as it has read
it; if the run is killed before, the next one removes the folder. A driver that is submitted by hand has an environment
of its own, and no file.

A password may change during a run. So the driver can ask for the variables again, by an empty file in the same folder;
the task that started Spark, which Airflow answers, replies with another file of that kind.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from srm_common.errors import ConfigError, SrmError

_LOG = logging.getLogger(__name__)
#: Names the file.
FILE = "SRM_SECRETS_FILE"
#: Lists the names that ``srm-spark-submit`` starts Spark without, separated by blanks.
WITHHELD = "SRM_WITHHELD"

#: How the files of a driver's question, of an answer that is being written, and of both kinds of answers end.
_QUESTION, _BEGUN, _VALUES, _FAULT = ".question", ".part", ".values", ".fault"
#: How often each side looks for the other's files, and how long a driver does: Airflow may have to ask a backend.
_ASKED_SECONDS, _ANSWERED_SECONDS, _PATIENCE_SECONDS = 0.5, 0.05, 15.0

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
#: Files that this process has written for others, which start with its environment.
_for_others: set[str] = set()


def refer(names: Iterable[str]) -> None:
    """A configuration of this process takes values from these."""
    _referred.update(names)


def variable(name: str) -> str | None:
    """Its value, from the file that was handed over, otherwise from the environment.

    Raises:
        ConfigError: there should be a file, and it cannot be read.
    """
    path = os.environ.get(FILE)
    return (_handed_over(Path(path)) if path and path not in _for_others else {}).get(name, os.environ.get(name))


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
    _write(file, json.dumps(dict(variables)))
    _for_others.add(str(file))
    # A name with blanks would look like several in the list; no shell sets such a variable.
    names = {name for name in {*withheld(), *variables} if not re.search(r"\s", name)}
    return {FILE: str(file), WITHHELD: " ".join(sorted(names))}


@contextmanager
def answering(folder: Path, variables: Callable[[], Mapping[str, str]]) -> Iterator[None]:
    """Inside the block, a process that was handed a file in ``folder`` can ask for what ``variables`` returns then."""
    over = threading.Event()

    def answer() -> None:
        while not over.wait(_ASKED_SECONDS):
            # One look-up answers all who wait.
            if questions := list(folder.glob(f"*{_QUESTION}")):
                _answer(questions, variables)
            _forget_answers(folder)

    thread = threading.Thread(target=answer, name="srm-secrets", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        # No longer: a backend may not respond.
        thread.join(_PATIENCE_SECONDS)


def _answer(questions: Iterable[Path], variables: Callable[[], Mapping[str, str]]) -> None:
    try:
        text, kind = json.dumps(dict(variables())), _VALUES
    except SrmError as error:
        text, kind = str(error), _FAULT
    except Exception as error:  # of Airflow, a secrets backend or a class of the user's; the next look-up may succeed
        # Without the error's own text, which may quote a secret.
        text, kind = f"the task that started Spark could not look it up ({type(error).__name__})", _FAULT
    for question in questions:
        begun = question.with_suffix(_BEGUN)
        try:
            _write(begun, text)
            begun.rename(question.with_suffix(kind))
        except OSError as error:
            begun.unlink(missing_ok=True)
            _LOG.warning("a question of Spark's driver could not be answered: %s", error)
        question.unlink(missing_ok=True)


def _forget_answers(folder: Path) -> None:
    """Remove answers that were never read, such as those to processes that were killed."""
    for answer in (*folder.glob(f"*{_VALUES}"), *folder.glob(f"*{_FAULT}")):
        with suppress(FileNotFoundError):
            if time.time() - answer.stat().st_mtime > 2 * _PATIENCE_SECONDS:
                answer.unlink()


def variable_again(name: str) -> str | None:
    """The value that the task which handed a file over has for a variable now; None if it has none. Blocks for seconds.

    Raises:
        ConfigError: no task handed a file over here, it does not answer, or its reason for having no values.
    """
    path = os.environ.get(FILE)
    if not path:
        raise ConfigError("no task has started this process that could look it up again")
    question = Path(path).with_name(f"{uuid.uuid4().hex}{_QUESTION}")
    values, fault = question.with_suffix(_VALUES), question.with_suffix(_FAULT)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    try:
        question.touch(mode=0o600, exist_ok=False)
        try:
            while time.monotonic() < deadline:
                if values.exists():
                    return _read_once(values).get(name)
                if fault.exists():
                    raise ConfigError(fault.read_text(encoding="utf-8"))
                time.sleep(_ANSWERED_SECONDS)
        finally:
            for file in (question, values, fault):
                file.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"the task that started Spark cannot be asked: {error.strerror}") from error
    raise ConfigError(f"the task that started Spark did not look it up within {_PATIENCE_SECONDS:g} s")


@cache
def _handed_over(file: Path) -> Mapping[str, str]:
    """Read once; no other process may."""
    return _read_once(file)


def _write(file: Path, text: str) -> None:
    """Into a new file that only this user may read."""
    with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as opened:
        opened.write(text)


def _read_once(file: Path) -> Mapping[str, str]:
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
