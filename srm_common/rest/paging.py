"""Which part of a long list a request asks for."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

#: Most rows of one answer; below what takes a browser or the store noticeable time.
MOST_ROWS = 1000

Offset = Annotated[int, Query(ge=0, le=10_000_000, description="rows to leave out at the beginning")]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS, description=f"rows of this answer, at most {MOST_ROWS}")]
#: No topic's name is longer.
LONGEST_SEARCH = 249
Search = Annotated[
    str, Query(max_length=LONGEST_SEARCH, description="a part of the name, in any case", examples=["orders"])
]
