from __future__ import annotations

from pathlib import Path

import pytest

from srm_common.cli.main import run


def test_an_export_without_offsets_leaves_the_file_of_the_last_one(
    of_flow: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is kept for the day on which the source is gone."""
    file = tmp_path / "offsets.csv"
    file.write_text("t,0,5\n")
    assert run(["offsets", *of_flow, "--group", "misspelt", "--export", "--to", str(file)]) == 1
    printed = capsys.readouterr()
    assert printed.out == f"There are no offsets, so {file} was not written\n"
    assert "group misspelt has no checkpoint" in printed.err
    assert file.read_text() == "t,0,5\n"
