"""A mutant: the product with one piece of one module's source replaced, in a process of its own."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

#: What mutants of several files name.
FETCHING = "srm_common.replication.slots.fetching"
SENDING_TESTS = "tests/unit/replication/slots/test_sending.py"


@dataclass(frozen=True)
class Mutant:
    """``before`` occurs once in the module's source; ``after`` takes its place. ``test``: the test of another ring that
    fails then, where no seed is likely to show it."""

    name: str
    module: str
    before: str
    after: str
    test: str = ""

    def path(self) -> Path:
        """The module's, without an import of what is to be replaced."""
        spec = importlib.util.find_spec(self.module)
        assert spec is not None
        assert spec.origin is not None
        return Path(spec.origin)

    def source(self) -> str:
        """The module's, as it is."""
        return self.path().read_text(encoding="utf-8")
