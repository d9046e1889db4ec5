"""The Spark application that verifies the copies of one flow: arguments, application, call.

Why it failed is one sentence after ``srm: `` on standard error, which spark-submit passes on as its standard output;
the exit code is that of ``srm-control verify``.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from srm_common.domain.patterns.name_filter import split_list
from srm_common.domain.runs.run_options import RunOptions
from srm_common.domain.verification.summary import failure_sentence, outcome_sentence, unproved_lines
from srm_common.domain.verification.verification import Against, VerificationScope, parse_moment, parse_share
from srm_common.errors import SrmError
from srm_common.replication.driver.last_word import say_last
from srm_common.replication.spark.spark_application import spark_context
from srm_common.replication.spark.spark_conf import spark_settings
from srm_common.replication.spark.spark_verification import SparkVerification
from srm_common.settings_files.configuration import load_configuration
from srm_common.settings_files.connections.airflow_connections import from_environment
from srm_common.spark_jobs.stop_signals import STOPPED, StopSignals
from srm_common.usecases.verification.kept_verification import verify_and_keep
from srm_common.usecases.verification.shared_verification import SharedVerification, verify_task


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the application; returns its exit code."""
    given = _arguments(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    for foreign in ("kafka", "py4j", "pyspark"):
        logging.getLogger(foreign).setLevel(logging.ERROR)
    signals = StopSignals()
    signals.watch()
    try:
        flow = load_configuration(given.config, connections=from_environment).flow(given.flow)
        selection = RunOptions(given.run_id, given.topics, given.topics_exclude)
        scope = VerificationScope(given.sample, given.since)
        spark = SparkVerification(
            lambda: spark_context(
                lambda master: spark_settings(master, flow.tasks_max, app_name=f"srm verify {flow.name}"), given.master
            ),
            verify_task,
            flow.tasks_max,
            signals.stopping,
        )
        verification = verify_and_keep(
            flow,
            scope,
            against=Against(given.against),
            chosen=selection.wants,
            resume=given.resume is not None,
            resume_since_ms=given.resume or 0,
            share=SharedVerification(spark, flow.spark_min_bytes),
        )
    except SrmError as error:
        say_last(str(error))
        return error.exit_code
    except KeyboardInterrupt as stopped:
        reason = str(stopped) or "the verification was stopped before its end; --resume continues from there"
        say_last(reason)
        return STOPPED
    for line in unproved_lines(verification.partitions):
        print(line, file=sys.stderr)
    print(outcome_sentence(verification.flow, verification.partitions), file=sys.stderr)
    failure = failure_sentence(verification.flow, verification.partitions, verification.faults)
    if failure is not None:
        say_last(failure)
    return 0 if failure is None else 1


def _parsed(parse: Callable[[str], int | float]) -> Callable[[str], int | float]:
    """For argparse, which wants a ValueError."""

    def convert(text: str) -> int | float:
        try:
            return parse(text)
        except SrmError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="verify.py", description="Prove the copies of a flow, or name differences.")
    parser.add_argument("--flow", required=True, help="source->target")
    parser.add_argument("--config", required=True, type=Path, help="the properties file")
    parser.add_argument("--run-id", default="manual", help="names the run in the log")
    parser.add_argument(
        "--against",
        choices=[str(against) for against in Against],
        default=str(Against.MAP),
        help="the offset map, by reading the target alone, or the records of the source",
    )
    parser.add_argument("--topics", type=split_list, help="only these source topics, as comma-separated expressions")
    parser.add_argument("--topics-exclude", type=split_list, help="not these")
    parser.add_argument("--sample", type=_parsed(parse_share), default="100%", metavar="PERCENT", help="such as 5%%")
    parser.add_argument("--since", type=_parsed(parse_moment), metavar="TIME", help="what the target got since then")
    parser.add_argument(
        "--resume",
        type=_parsed(parse_moment),
        nargs="?",
        const=0,
        metavar="TIME",
        help="continue the newest verification, if it was stopped, and began at that time or later",
    )
    parser.add_argument("--master", help="Spark's master, unless given to spark-submit")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
