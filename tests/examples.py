"""How many examples the tests of properties try."""

from __future__ import annotations

import os

#: Of the profile ``quick``: the most, and the share of what a test asks for.
QUICK_EXAMPLES, _QUICK_SHARE = 15, 5


def examples(count: int) -> int:
    """``count``, for a test that needs more or fewer than the usual hundred; a fifth of it in the profile ``quick``.

    A number that a test gives to hypothesis itself would count in every profile.
    """
    if os.environ.get("HYPOTHESIS_PROFILE") != "quick":
        return count
    return max(1, min(QUICK_EXAMPLES, count // _QUICK_SHARE))
