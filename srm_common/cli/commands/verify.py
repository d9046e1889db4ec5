"""``srm-control verify``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType

from srm_common.cli.invocation import Invocation, config_option, flow_option, output_option, pass_invocation
from srm_common.cli.output import Answer, table
from srm_common.cli.text_files import check_writable, write_text
from srm_common.cli.verification_page import verification_page
from srm_common.domain.amount import counted
from srm_common.domain.patterns.name_filter import PatternList, check_patterns
from srm_common.domain.verification.summary import outcome_sentence
from srm_common.domain.verification.verification import (
    Against,
    PartitionVerified,
    Verdict,
    Verification,
    VerificationScope,
    parse_moment,
    parse_share,
)
from srm_common.errors import ConfigError


class _Share(click.ParamType[float]):
    """A percentage as a number of 0 to 1."""

    name = "percentage"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return parse_share(str(value))
        except ConfigError as error:
            self.fail(str(error), param, ctx)


class _Moment(click.ParamType[int]):
    """A time as epoch milliseconds; without a zone it is UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_moment(str(value))
        except ConfigError as error:
            self.fail(str(error), param, ctx)


@click.command("verify")
@flow_option
@click.option(
    "--against",
    type=click.Choice([str(one) for one in Against]),
    default=str(Against.MAP),
    show_default=True,
    help="Compare with the offset map, reading only the target, or with the records of the source.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPICS",
    help="Topics of the source: names or expressions, as in 'topics'.",
)
@click.option("--sample", type=_Share(), default="100%", metavar="PERCENT", help="Compare only a sample, such as 5%.")
@click.option("--since", type=_Moment(), metavar="TIME", help="Only what was copied since then, such as 2026-11-23.")
@click.option("--resume", is_flag=True, help="Continue the newest verification, if it was stopped.")
@click.option("--show", is_flag=True, help="Print the keys of differing records, not only their digests.")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write the result to a file: HTML if its name ends in .html, otherwise JSON.",
)
@config_option
@output_option
@pass_invocation
def verify_command(
    invocation: Invocation,
    flow: str | None,
    against: str,
    topics: Sequence[str],
    sample: float,
    since: int | None,
    resume: bool,
    show: bool,
    report: Path | None,
) -> Answer:
    """Prove that the copies are what the flow committed, or name the first difference.

    Compares the copies with the fingerprints in the offset map, for which only the target is read, so it works even if
    the source is gone; or with the records of the source. Finds records that were changed, lost, duplicated, reordered
    or truncated since the commit, and records of other writers. Changes no copies; the flow may be running. The result
    is kept in the flow's state, also that of an interrupted verification as far as it got.

    \b
    Exit codes: 0 no difference; 1 there are differences, a copy could not be read, or nothing is in the sample; 2 the
    configuration is invalid, or a --topic has no copy; 3 a cluster cannot be reached or denies access.
    """
    from srm_common.usecases.flows.flow_clusters import FlowClusters
    from srm_common.usecases.verification.existing_copies import without_copies
    from srm_common.usecases.verification.kept_verification import verify_and_keep

    fault = check_patterns(tuple(topics))
    if fault is not None:
        raise ConfigError(f"--topic: {fault}")
    settings = invocation.flow(flow)
    if report is not None:
        check_writable(report, "report")
    wanted = PatternList(topics)
    done = 0

    def progress(one: PartitionVerified) -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty():
            print(f"\r{counted(done, 'partition')} compared", end="", file=sys.stderr, flush=True)

    with FlowClusters(settings) as clusters:
        if strange := without_copies(clusters, topics):
            raise ConfigError(f"--topic: {settings.name} has no copy of a topic that matches {', '.join(strange)}")
        verification = verify_and_keep(
            clusters,
            VerificationScope(sample, since),
            against=Against(against),
            chosen=lambda topic: not topics or wanted.matching(topic) is not None,
            resume=resume,
            report=progress,
            show_keys=show,
        )
    if done and sys.stderr.isatty():
        print(file=sys.stderr)
    proved = verification.clean and not verification.sample_is_empty
    answer = Answer(verification.to_json(), _text(verification), 0 if proved else 1)
    if report is not None:
        page = report.suffix == ".html"
        json_text = json.dumps(answer.data, indent=2, ensure_ascii=False) + "\n"
        write_text(report, verification_page(verification) if page else json_text, "report")
    return answer


def _text(found: Verification) -> list[RenderableType]:
    text: list[RenderableType] = []
    rows = [
        [
            partition.copy,
            partition.partition,
            str(partition.verdict),
            None if partition.findings.proved_to < 0 else partition.findings.proved_to,
            partition.findings.proved,
            ", ".join(f"{records} {reason}" for reason, records in partition.findings.not_proved.items()) or None,
            partition.fault or (partition.first and partition.first.shown()),
        ]
        for partition in found.partitions
        if partition.verdict is not Verdict.NOTHING
    ]
    if rows:
        columns = ["COPY", "PARTITION", "RESULT", "PROVED TO", "RECORDS", "NOT PROVED", "FIRST DIFFERENCE"]
        text += [table(columns, rows), ""]
    text += found.faults
    text.append(outcome_sentence(found.flow, found.partitions))
    return text
