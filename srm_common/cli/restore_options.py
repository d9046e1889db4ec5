"""``--recreate TOPIC`` and ``--resume TOPIC``: what to do, this once, about topics whose copies are lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from srm_common.domain.flow import OnDataLoss

F = TypeVar("F", bound=Callable[..., Any])


def restore_options(command: F) -> F:
    """Both options; the command gets ``recreate`` and ``resume``, tuples of names."""
    recreate = click.option(
        "--recreate",
        multiple=True,
        metavar="TOPIC",
        help="Copy a topic whose copy was deleted, or made again by somebody, from its start. May be repeated.",
    )
    resume = click.option(
        "--resume",
        multiple=True,
        metavar="TOPIC",
        help="Go on with such a topic where the flow stopped; what was copied before stays lost. May be repeated.",
    )
    return recreate(resume(command))


def choices(recreate: Sequence[str], resume: Sequence[str]) -> dict[str, OnDataLoss]:
    """By topic, for ``plan_topics``. Raises :class:`click.UsageError` for a topic with both."""
    if both := sorted(set(recreate) & set(resume)):
        raise click.UsageError(f"--recreate and --resume both name {both[0]}; choose one")
    return dict.fromkeys(recreate, OnDataLoss.RESET) | dict.fromkeys(resume, OnDataLoss.SKIP)
