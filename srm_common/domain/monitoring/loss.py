"""Which sentence of a run tells about records that vanished at the source."""

from __future__ import annotations

from collections.abc import Iterable

#: Every such sentence names it (:mod:`srm_common.domain.runs.data_loss`).
_SETTING = "on.data.loss"


def loss_told(partition_errors: Iterable[str], notes: Iterable[str]) -> str | None:
    """That of the first partition that stands still for it, else the first note about where the run went on."""
    return next((text for text in (*partition_errors, *notes) if _SETTING in text), None)


def stands_still(error: str | None) -> bool:
    """Whether a partition's error is that it waits for somebody to decide about a loss."""
    return error is not None and _SETTING in error
