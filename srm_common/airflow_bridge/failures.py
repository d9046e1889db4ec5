"""The project's errors as Airflow's exceptions: which fail a task at once, and which are retried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from srm_common.domain.flow import FlowName
from srm_common.domain.monitoring.schedule import not_scheduled
from srm_common.errors import (
    AccessDenied,
    ClusterError,
    ConfigError,
    CorruptRecord,
    OwnershipError,
    RunFailed,
    SrmError,
    StateError,
    StateTopicInvalid,
    UnsupportedBroker,
)
from srm_common.settings_files.configuration import load_configuration

# No retry fixes these. Another run that owns the flow is among them: a retry would take it back.
FINAL: tuple[type[SrmError], ...] = (
    ConfigError,
    AccessDenied,
    UnsupportedBroker,
    StateTopicInvalid,
    CorruptRecord,
    OwnershipError,
)
# The same for a process that ended with an exit code of :mod:`srm_common.errors`.
FINAL_EXIT_CODES = frozenset({ConfigError.exit_code, OwnershipError.exit_code})
# Both kinds end with these; the run's record tells which it was.
RECORDED_EXIT_CODES = frozenset({RunFailed.exit_code, ClusterError.exit_code, StateError.exit_code})

UNABLE_KEY = "unable"
# When the run's first task began, in epoch milliseconds. Airflow has no such time of a run that survives clearing.
BEGAN_KEY = "began_ms"
_SCHEDULED = "scheduled"


def skip_if_disabled(context: Mapping[str, Any], config: str, flow: str) -> None:
    """Skips a scheduled run of a flow that the file disables by now; its DAG may still be the one before that.

    A file that cannot be read is left to the task.
    """
    if context["dag_run"].run_type != _SCHEDULED:
        return
    name = FlowName.parse(flow)
    with suppress(ConfigError):
        if load_configuration(Path(config), connections=None).flow(name).disabled:
            raise AirflowSkipException(not_scheduled(name))


@contextmanager
def translate_errors() -> Iterator[None]:
    """Inside, an :class:`SrmError` fails the task with its sentence: at once when it is final, else after retries."""
    try:
        yield
    except SrmError as error:
        kind = AirflowFailException if isinstance(error, FINAL) else AirflowException
        # What the client library said stays in the log; the sentence itself need not be there twice.
        raise kind(str(error)) from error.__cause__


def why_unable(context: Mapping[str, Any]) -> str | None:
    """The sentence by which ``refresh_topics`` of this run could not do its work at all, None when it could."""
    found = context["ti"].xcom_pull(task_ids="refresh_topics", key=UNABLE_KEY)
    return None if found is None else str(found)


def began_ms(context: Mapping[str, Any]) -> int | None:
    """When ``refresh_topics`` of this run began, in epoch milliseconds; None for a run of an earlier version."""
    found = context["ti"].xcom_pull(task_ids="refresh_topics", key=BEGAN_KEY)
    return None if found is None else int(found)


def stop_if_unable(context: Mapping[str, Any]) -> None:
    """Fails with the reason when ``refresh_topics`` of this run could not do its work at all.

    The tasks after it run whatever its state is, since one topic that cannot be created must not stop the others; but
    an unreachable cluster or a wrong setting need not be found out again at the price of a Spark job.
    """
    sentence = why_unable(context)
    if sentence is not None:
        raise AirflowFailException(f"refresh_topics of this run failed: {sentence}")
