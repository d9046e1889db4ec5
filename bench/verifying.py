"""What it costs to verify copies: ``python -m bench.verifying [WORKLOAD ...]``.

Two real brokers; each workload is written to the source, copied once by this process, and verified by it against the
offset map and against its source. A line for each: CPU-seconds a GB of batches that is read, of this process and
without the brokers, beside those of the copy.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import click

from bench.errors import BenchError
from bench.map_size import copied, on_target, scaled
from bench.sides import Clusters
from bench.workloads import WORKLOADS, Workload
from srm_common.domain.verification.verification import Against
from srm_common.usecases.verification.verify_copies import verify_copies

_KINDS = ("1k-lz4", "100b-lz4", "1k-none", "1k-compacted")


@click.command()
@click.argument("workloads", nargs=-1, type=click.Choice(list(WORKLOADS)))
@click.option("--megabytes", default=2000, show_default=True, help="Of each workload, before compression.")
@click.option("--rounds", default=3, show_default=True, help="Of each kind of verification; the median counts.")
def main(workloads: tuple[str, ...], megabytes: int, rounds: int) -> None:
    """Copy so much of each workload, verify it, and print what that took."""
    for workload, clusters, folder in scaled(workloads or _KINDS, megabytes):
        _measure(workload, clusters, folder, rounds)


def _measure(workload: Workload, clusters: Clusters, folder: Path, rounds: int) -> None:
    flow, copy_seconds = copied(workload, clusters, folder)
    content = on_target(workload, clusters)
    gigabytes = content.wire_bytes / 1e9
    for against in Against:
        spent = []
        for _ in range(rounds):
            begun = time.process_time()
            verification = verify_copies(flow, against=against)
            spent.append(time.process_time() - begun)
            if not verification.clean:
                raise BenchError(f"the copy of {workload.name} is not what was copied: {verification.counts}")
        read = gigabytes if against is Against.MAP else 2 * gigabytes
        print(
            f"{workload.name}: {content.wire_bytes / 1e6:.0f} MB in batches of "
            f"{content.wire_bytes / content.batches:,.0f} bytes: against the {against} {median(spent) / read:.2f} "
            f"CPU-seconds per GB that is read, copying {copy_seconds / gigabytes:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
