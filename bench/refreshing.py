"""What refreshing costs for many topics on real brokers: ``python -m bench.refreshing``.

One broker a cluster, topics of one partition, all selected. Timed are, in a process of Python that is warm: looking at
both clusters and planning while no copy exists, planning and creating all copies, and everything once more when nothing
has changed. The figures in docs/topics.md are for the default size and for 1,000 topics.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable
from typing import TypeVar

import click

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.topics.actions import CreateTopic, failed
from srm_common.kafka.admin.cluster_admin import ClusterAdmin
from srm_common.testing import LocalKafka
from srm_common.usecases.topics.plan_topics import plan_topics
from srm_common.usecases.topics.refresh_topics import refresh_topics

#: A broker refuses to make thousands of topics for one request in time.
_BATCH = 500


_T = TypeVar("_T")


def _timed(figures: dict[str, float], name: str, work: Callable[[], _T]) -> _T:
    started, cpu = time.perf_counter(), time.process_time()
    done = work()
    figures[f"{name}_seconds"] = round(time.perf_counter() - started, 2)
    figures[f"{name}_cpu_seconds"] = round(time.process_time() - cpu, 2)
    return done


def measured(topics: int) -> dict[str, float]:
    """The figures for ``topics`` topics; raises RuntimeError when an action fails or the second refresh has one."""
    figures: dict[str, float] = {"topics": topics}
    settings = {"num.network.threads": "2", "num.io.threads": "2"}
    with LocalKafka(name="a", settings=settings) as source, LocalKafka(name="b", settings=settings) as target:
        flow = FlowSettings(
            FlowName("a", "b"),
            ClusterSettings.plaintext("a", source.bootstrap_servers),
            ClusterSettings.plaintext("b", target.bootstrap_servers),
            replication_factor=1,
            internal_replication_factor=1,
            heartbeats_replication_factor=1,
            checkpoints_replication_factor=1,
            offset_syncs_replication_factor=1,
            status_replication_factor=1,
            config_replication_factor=1,
        )
        admin = ClusterAdmin(flow.source, timeout_seconds=120)
        names = [f"team-{number % 100}.topic-{number}" for number in range(topics)]
        for start in range(0, topics, _BATCH):
            actions = [CreateTopic("a", name, 1, 1, (), "") for name in names[start : start + _BATCH]]
            refused = [error for error in admin.create_topics(actions) if error is not None]
            if refused:
                raise RuntimeError(f"the source does not create a topic: {refused[0]}")
        while len(admin.topics().partitions) < topics:  # brokers learn of topics some time after they were made
            time.sleep(0.5)
        plan = _timed(figures, "plan_of_new", lambda: plan_topics(flow))
        created = _timed(figures, "refresh_that_creates", lambda: refresh_topics(flow, at_once=True))
        if failed(created.results):
            raise RuntimeError(f"an action failed: {failed(created.results)[0]}")
        while refresh_topics(flow, at_once=True).results:  # ids of topics that brokers did not know at once
            time.sleep(0.5)
        again = _timed(figures, "refresh_without_changes", lambda: refresh_topics(flow, at_once=True))
        if again.results:
            raise RuntimeError(f"something was still to be done: {again.results[0]}")
        figures["actions"] = len(plan.actions)
    figures["peak_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return figures


@click.command()
@click.option("--topics", default=10_000, show_default=True)
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def main(topics: int, output: str) -> None:
    """Refresh a flow of so many topics, on two brokers of this machine."""
    figures = measured(topics)
    lines = [f"{key:>36}  {value}" for key, value in figures.items()]
    print(json.dumps(figures) if output == "json" else "\n".join(lines))


if __name__ == "__main__":
    main()
