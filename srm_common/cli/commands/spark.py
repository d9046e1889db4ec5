"""``srm-control pack`` and ``srm-control warmup``: preparations for Spark."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from srm_common.cli.invocation import output_option
from srm_common.cli.output import Answer


@click.command("pack")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--transforms", is_flag=True, help="With Arrow and numba, for flows with transforms: some 150 MB.")
@output_option
def pack_command(file: Path, transforms: bool) -> Answer:
    """Write an archive for Spark workers that have nothing installed.

    It contains this package and what copying needs, as installed here. Workers need the same Python minor version and
    architecture. docs/spark.md says how Spark sends it to them.
    """
    from srm_common.replication.spark.worker_archive import pack_worker_archive

    size = pack_worker_archive(file, transforms=transforms)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Answer(
        {"file": str(file), "bytes": size, "python": python},
        [
            f"{file}: {size / 1e6:.1f} MB, for workers with Python {python}. Spark settings:",
            f"  spark.archives                 {file.resolve()}#srm",
            "  spark.executorEnv.PYTHONPATH   srm",
        ],
    )


@click.command("warmup")
@click.option(
    "--file", type=click.Path(dir_okay=False, path_type=Path), help="Where to write it; SRM_SPARK_ARCHIVE must name it."
)
@output_option
def warmup_command(file: Path | None) -> Answer:
    """Make Spark start faster on this machine: about a third less CPU for each run.

    Writes an archive of the classes that Spark's JVM loads (Java class-data sharing, 145 MB) into the cache folder,
    where every run of this user finds it. Repeat it after an upgrade of Java or Spark; without it, or if it does not
    match, runs still work.
    """
    from srm_common.replication.spark.class_archive import make_class_archive

    made = make_class_archive(file)
    return Answer(
        {"file": str(made), "bytes": made.stat().st_size},
        f"{made}: {made.stat().st_size / 1e6:.0f} MB; runs on this machine use it from now on",
    )
