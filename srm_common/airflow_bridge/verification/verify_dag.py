"""The DAG ``srm.verify``: one task that proves the copies of the requested flow. Parsing reads one properties
file, as for the DAGs of flows."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, get_parsing_context

from srm_common.airflow_bridge.configuration_path import configuration_path
from srm_common.airflow_bridge.dag_arguments import Additions, runs_at_once
from srm_common.airflow_bridge.flow_tasks import pool_of
from srm_common.airflow_bridge.verification.verify_operator import VerifyOperator
from srm_common.domain.verification.verification import Against
from srm_common.settings_files.configuration import load_configuration

DAG_ID = "srm.verify"
#: Not that of flows, which other pages list by theirs.
TAG = "srm-verify"
_RETRIES = 2
_RETRY_DELAY = timedelta(minutes=1)
#: An attempt that it ends is continued by the next one.
_TIMEOUT = timedelta(hours=24)

#: What the form shows.
_AGAINST = {
    Against.MAP: "map: what the flow has committed, by reading the target alone",
    Against.SOURCE: "source: the records of the source, which is then read as well",
}
_DOC = """\
## Proves the copies of a flow

Start it with *Trigger*; the form asks for the flow. The copies are read and compared with the fingerprints of what \
the flow has committed, or with the records of the source. Nothing is changed, and the flow may be running.

The task **verify** succeeds when no copy is different. It fails, without a retry, when one is, and names the first \
difference; its log has a line for each partition that is not proved, and its XCom `return_value` the result. What \
it has compared is kept in the flow's state while it runs: a retry continues from there, the Replications page shows \
the result, and the flow's alarm *copies differ* follows it.

To verify regularly, trigger it from a DAG with a schedule (docs/verify.md).
"""
_TASK_DOC = (
    "Compares the copies, in Spark, or below `spark.min.bytes` in the task's own process. Fails for good when a copy "
    "is not what was committed; when a partition could not be read, a retry continues with the rest."
)


def build_verify_dags(config: str | Path | None, additions: Additions) -> dict[str, DAG]:
    """See :func:`srm_common.airflow_bridge.verify_dags`."""
    path = configuration_path(config)
    if get_parsing_context().dag_id not in (None, DAG_ID):
        return {}
    # Airflow connections are for tasks; asking for them here would open Airflow's database at every parse.
    flows = load_configuration(path, connections=None).flows
    if not flows:
        return {}
    # A task's pool is chosen before its flow is known.
    pools = {pool_of(settings) for settings in flows.values()}
    dag = DAG(
        dag_id=DAG_ID,
        description="Proves the copies of a flow, or names the first difference",
        schedule=None,
        max_active_runs=runs_at_once(len(flows)),
        is_paused_upon_creation=False,
        doc_md=_DOC,
        params=_params(sorted(map(str, flows))),
        **additions.dag_arguments([TAG]),
    )
    VerifyOperator(
        dag=dag,
        task_id="verify",
        doc_md=_TASK_DOC,
        config=str(path),
        retries=_RETRIES,
        retry_delay=_RETRY_DELAY,
        execution_timeout=_TIMEOUT,
        pool=pools.pop() if len(pools) == 1 else "default_pool",
    )
    return {DAG_ID: dag}


def _params(flows: list[str]) -> dict[str, Param]:
    """The form of the DAG's params; :mod:`srm_common.airflow_bridge.params` parses them."""
    # With several flows there is no default: the form insists on a choice.
    chosen: dict[str, Any] = {"default": flows[0]} if len(flows) == 1 else {}
    patterns: dict[str, Any] = {"type": ["null", "array"], "items": {"type": "string"}, "section": "Only a part"}
    return {
        "flow": Param(type="string", enum=flows, title="Flow", description="Whose copies are compared.", **chosen),
        "against": Param(
            Against.MAP.value,
            type="string",
            enum=[against.value for against in Against],
            values_display={against.value: _AGAINST[against] for against in Against},
            title="Compare with",
            description="Against the source, what MirrorMaker 2 copied is proved, too; that takes both sides' reads.",
        ),
        "resume": Param(
            False,
            type="boolean",
            title="Resume",
            description="Go on with the newest verification of the flow, if it was stopped or could not read a "
            "partition. Otherwise all is compared again.",
        ),
        "topics": Param(
            None,
            title="Topics",
            description="Only these, by their names at the source: expressions, one per line. Empty: all that the "
            "flow has copied.",
            **patterns,
        ),
        "topics.exclude": Param(
            None, title="Topics left out", description="Not these: expressions, one per line.", **patterns
        ),
        "sample": Param(
            100,
            type="number",
            minimum=0.01,
            maximum=100,
            title="Sample (percent)",
            description="Compare so much of the copies; the same parts every time.",
            section="Only a part",
        ),
        "since": Param(
            None,
            type=["null", "string"],
            format="date-time",
            title="Since",
            description="Only what the target got since then. Empty: all that it still has.",
            section="Only a part",
        ),
    }
