"""``python -m tests.compat [NAME ...]``: builds the environments one after another, tries them, and writes the table of
docs/compatibility.md; without names all of them. About six minutes each, and 2 GB while one is there.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.compat.environment import ENVIRONMENTS, ROOT, CannotBuild, Environment, built, built_wheel, downloads
from tests.compat.table import Row, with_row
from tests.compat.trial import Trial, tried

DOCUMENT = ROOT / "docs" / "compatibility.md"


def main(names: Sequence[str]) -> int:
    """Exit code 1 when something does not work in one of the environments."""
    known = {environment.name: environment for environment in ENVIRONMENTS}
    if unknown := [name for name in names if name not in known]:
        print(f"there is no environment {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    failed = []
    with tempfile.TemporaryDirectory(prefix="srm-compat-") as scratch:
        wheel = built_wheel(Path(scratch, "dist"))
        for name in names or known:
            print(f"{name}: {known[name]}", flush=True)
            folder = Path(scratch, name)
            folder.mkdir()
            row = _row(known[name], wheel, folder)
            DOCUMENT.write_text(with_row(DOCUMENT.read_text(), row))
            if not row.good:
                failed.append(name)
    shutil.rmtree(downloads(), ignore_errors=True)
    print(f"does not work: {', '.join(failed)}" if failed else "all good")
    return 1 if failed else 0


def _row(environment: Environment, wheel: Path, folder: Path) -> Row:
    try:
        with built(environment, wheel) as python:
            trial = tried(python, folder)
    except CannotBuild as error:
        print(f"  cannot be built: {error}", flush=True)
        trial = Trial({}, {"modules": f"cannot be built: {error}"})
    return Row.of(environment, trial, time.strftime("%Y-%m-%d"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
