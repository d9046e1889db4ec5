"""``srm-control pack``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from srm_common.cli.invocation import output_option
from srm_common.cli.output import Answer


@click.command("pack")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@output_option
def command(file: Path) -> Answer:
    """Write an archive for Spark workers that have nothing installed.

    It holds this package and what copying needs, as installed here. Workers need the same Python minor version and
    architecture. docs/spark.md says how Spark sends it to them.
    """
    from srm_common.replication.spark.worker_archive import pack_worker_archive

    size = pack_worker_archive(file)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Answer(
        {"file": str(file), "bytes": size, "python": python},
        [
            f"{file}: {size / 1e6:.1f} MB, for workers with Python {python}. Tell Spark:",
            f"  spark.archives                 {file.resolve()}#srm",
            "  spark.executorEnv.PYTHONPATH   srm",
        ],
    )
