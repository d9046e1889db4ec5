from __future__ import annotations

from pathlib import Path
from threading import Thread

from srm_common.testing.java import LocalProcess


def test_a_process_that_cannot_be_started_is_an_error_and_the_next_one_starts(tmp_path: Path) -> None:
    """A thread starts all of them, and outlives what it is given."""
    faults = []

    def start() -> None:
        try:
            LocalProcess(["true"], output=tmp_path / "log", environment={"NAME": "a\0b"})
        except ValueError as error:
            faults.append(str(error))

    starting = Thread(target=start, daemon=True)
    starting.start()
    starting.join(30)
    assert faults == ["embedded null byte"]
    assert LocalProcess(["true"], output=tmp_path / "log", environment={}).wait(60) == 0
