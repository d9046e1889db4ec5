"""A pass too small for a Spark job: the driver copies it itself, with the code that Spark's workers run."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from srm_common.domain.runs.copying import CopyJob, SlotResult, SlotTask
from srm_common.errors import ConfigError
from srm_common.kafka.client.links.link_pool import LinkPool
from srm_common.replication.driver.passes import PassRunner
from srm_common.replication.slots.range_transforms import range_transforms
from srm_common.replication.slots.slot import copy_slot
from srm_common.replication.spark.slot_work import copied

_LOG = logging.getLogger(__name__)
#: A pass that turns out to be large ends after so long, and the next one knows better.
_SECONDS = 10.0


class NeedsSpark(Exception):
    """The first pass of a run is large enough for Spark, which this process does not have; nothing was copied."""


class DriverPassRunner:
    """Copies passes of less than ``min_bytes`` here and gives all others to ``spark``.

    A pass counts as large if the size of its records is unknown, and if its slots are to continue with what is
    written meanwhile, since these last. So does every pass of a flow with statements that only Spark evaluates, or with
    transforms that need what is not installed here: Spark's workers may have it, as by ``spark.submit.pyFiles``.

    Raises :class:`NeedsSpark` for a large first pass when ``spark`` is None. Large passes that follow are then copied
    here as well, rather than ending a run that has begun.
    """

    def __init__(self, min_bytes: int, spark: PassRunner | None) -> None:
        self._min_bytes = min_bytes
        self._spark = spark
        self._begun = False

    def __call__(self, job: CopyJob, tasks: Sequence[SlotTask]) -> list[SlotResult]:
        if not self._is_small(job, tasks):
            if self._spark is not None:
                return self._spark(job, tasks)
            if not self._begun:
                raise NeedsSpark
        self._begun = True
        short = replace(job, pass_seconds=min(job.pass_seconds or _SECONDS, _SECONDS))
        with LinkPool(one_loop=True) as pool:
            return [copied(partial(copy_slot, pool=pool), short, task) for task in tasks]

    def _is_small(self, job: CopyJob, tasks: Sequence[SlotTask]) -> bool:
        sizes = [task.expected_bytes for task in tasks]
        return (
            not (job.tail_until or job.needs_spark_sql)
            and None not in sizes
            and sum(filter(None, sizes)) < self._min_bytes
            and _can_transform(job)
        )


def _can_transform(job: CopyJob) -> bool:
    """Whether this process has what the job's transforms need. Where nobody has it, Spark's workers say so."""
    try:
        range_transforms(job, 0)
    except ConfigError as error:
        _LOG.info("Spark copies this pass, though it is small: %s", error)
        return False
    return True
