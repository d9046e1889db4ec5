"""The Spark application that copies one flow: arguments, application, call.

A failed run's reason is one sentence after ``srm: `` on standard error, which spark-submit passes on as its standard
output; the exit code is that of the error (srm_common/errors.py), 1 when any partition failed.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.start_position import StartPosition
from srm_common.domain.patterns.name_filter import split_list
from srm_common.domain.runs.run_options import RunOptions, RunSelection
from srm_common.domain.runs.run_record import RunRecord
from srm_common.errors import ConfigError, SrmError
from srm_common.replication.driver.last_word import say_last
from srm_common.replication.spark.installed_pyspark import prefer_installed_pyspark
from srm_common.replication.spark.spark_application import Ahead, spark_context
from srm_common.replication.spark.spark_conf import spark_settings
from srm_common.settings_files.configuration import Configuration, load_configuration
from srm_common.settings_files.connections.airflow_connections import from_environment

if TYPE_CHECKING:
    from pyspark import SparkContext


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the application; returns its exit code."""
    given = _arguments(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    for foreign in ("kafka", "py4j", "pyspark"):
        logging.getLogger(foreign).setLevel(logging.ERROR)
    try:
        configuration = load_configuration(given.config, connections=from_environment)
        flow = configuration.flow(given.flow)
        context = _application(flow, given.master)
        return _run(flow, context, given, configuration)
    except SrmError as error:
        say_last(str(error))
        return error.exit_code
    except KeyboardInterrupt as stopped:
        reason = str(stopped) or "the run was stopped before its end; the next one continues from there"
        say_last(reason)
        from srm_common.spark_jobs.stop_signals import STOPPED

        return STOPPED


def _application(flow: FlowSettings, master: str | None) -> Callable[[], SparkContext]:
    """The flow's Spark application. It starts when it is asked for; where each pass needs Spark SQL, which takes
    longest, at once, while this thread imports what copies and asks the clusters."""

    def start() -> SparkContext:
        return spark_context(
            lambda chosen: spark_settings(
                chosen, flow.tasks_max, app_name=f"srm {flow.name}", statements=flow.needs_spark_sql
            ),
            master,
        )

    if not (flow.needs_spark_sql and "PYSPARK_GATEWAY_PORT" in os.environ):
        return start
    # Here, since it changes the path from which this thread imports.
    prefer_installed_pyspark()
    return Ahead(start)


def _run(
    flow: FlowSettings, context: Callable[[], SparkContext], given: argparse.Namespace, configuration: Configuration
) -> int:
    """Raises what :func:`.replicate` does, and :class:`RunFailed` for a run that failed."""
    # They import clients of Kafka, which takes a second.
    from srm_common.replication.spark.driver_pass import DriverPassRunner
    from srm_common.replication.spark.spark_pass import SparkPassRunner
    from srm_common.spark_jobs.stop_signals import StopSignals
    from srm_common.usecases.runs.replicate import raise_if_failed, replicate, summary

    StopSignals().watch()
    notes: tuple[str, ...] = ()
    installation = None
    if given.selection is not None:
        selection = _selection(given.selection)
        flow = selection.applied_to(flow)
        given.topics, given.topics_exclude, notes = selection.topics, selection.topics_exclude, selection.notes
        installation = selection.installation
    run = RunOptions(
        run_id=given.run_id,
        topics=given.topics,
        topics_exclude=given.topics_exclude,
        notes=notes,
        installation=installation,
        max_seconds=given.max_seconds,
        start=StartPosition.parse(given.start),
    )
    spark = SparkPassRunner(context)
    if isinstance(context, Ahead):
        spark.begin(flow.statements)
    runner = DriverPassRunner(flow.spark_min_bytes, spark)
    record = _reported(lambda: replicate(flow, run, runner), flow, given, configuration)
    print(summary(record), file=sys.stderr)
    raise_if_failed(record)
    spark.settle()
    return 0


def _selection(path: Path) -> RunSelection:
    """Raises :class:`ConfigError`, also where the file is not there, as in deploy mode cluster."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the selection of the run cannot be read: {error}") from error
    return RunSelection.parse(text)


def _reported(
    work: Callable[[], RunRecord], flow: FlowSettings, given: argparse.Namespace, configuration: Configuration
) -> RunRecord:
    """``work``, with a report in the history if one was requested; under Airflow a task does that."""
    if not given.report:
        return work()
    from srm_common.usecases.monitoring.report_run import report_by_hand  # the other runs need no database

    try:
        record = work()
    except SrmError as error:
        report_by_hand(flow, given.run_id, configuration, unable=str(error))
        raise
    report_by_hand(flow, given.run_id, configuration)
    return record


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="replicate.py", description="Copy one flow between Kafka clusters.")
    parser.add_argument("--flow", required=True, help="source->target")
    parser.add_argument("--config", required=True, type=Path, help="the properties file")
    parser.add_argument("--run-id", required=True, help="identifies the run; the same for a second attempt")
    parser.add_argument(
        "--selection",
        type=Path,
        metavar="FILE",
        help="the filters to use instead of those in the properties file, and what narrows them (JSON)",
    )
    parser.add_argument("--topics", type=split_list, help="only these, as comma-separated expressions")
    parser.add_argument("--topics-exclude", type=split_list, help="not these")
    parser.add_argument("--max-seconds", type=float, help="keep reading for this long; 0: one pass")
    parser.add_argument("--start", default="committed", help="committed, earliest, latest or timestamp:TIME")
    parser.add_argument(
        "--report", action="store_true", help="keep a report of the run in the metrics store, as Airflow's task does"
    )
    parser.add_argument("--master", help="Spark's master, unless given to spark-submit")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
