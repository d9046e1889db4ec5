"""Handler of :class:`StartOver`: it comes before everything else that is done for a topic whose copy is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from srm_common.domain.flow.start_position import StartKind, StartPosition
from srm_common.domain.topics.actions import ActionResult, StartOver
from srm_common.errors import SrmError
from srm_common.usecases.offsets.edit_source_offsets import Request, edit_source_offsets
from srm_common.usecases.topics.applying import Applying


def start_over(applying: Applying, actions: Sequence[StartOver]) -> Iterator[ActionResult]:
    """Move the source offsets of all these topics; those that could not be moved are left alone altogether.

    A topic whose offsets stayed must not be copied into a new copy: everything before them would be missing there.
    """
    request = Request(
        verb="start over",
        topics=tuple(re.escape(action.upstream_topic) for action in actions),
        to=StartPosition(StartKind.EARLIEST),
    )
    problems: dict[str, str] = {}
    try:
        for edit in edit_source_offsets(applying.flow, request):
            if edit.problem:
                problems.setdefault(edit.topic, edit.problem)
    except SrmError as error:
        problems = {action.upstream_topic: str(error) for action in actions}
    if problems:
        # All or nothing: with one problem no offset was written.
        first = next(iter(problems.values()))
        problems = {action.upstream_topic: problems.get(action.upstream_topic, first) for action in actions}
    for action in actions:
        problem = problems.get(action.upstream_topic)
        if problem is not None:
            applying.blocked[action.topic] = f"its source offsets could not be moved: {problem}"
        yield ActionResult(action, error=problem)
