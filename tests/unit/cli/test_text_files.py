from __future__ import annotations

import os
from pathlib import Path

import pytest

from srm_common.cli.text_files import check_writable, read_text, write_text
from srm_common.errors import ConfigError


def test_looking_whether_a_file_can_be_written_leaves_all_as_it_is(tmp_path: Path) -> None:
    earlier, link, behind, pipe = (tmp_path / name for name in ("earlier", "link", "behind", "pipe"))
    earlier.write_text("an earlier report")
    link.symlink_to(behind)
    os.mkfifo(pipe)
    for path in (earlier, link, tmp_path / "new", pipe):
        check_writable(path, "report")
    assert earlier.read_text() == "an earlier report"
    assert link.is_symlink()
    assert not behind.exists()
    assert not (tmp_path / "new").exists()


def test_what_goes_wrong_is_one_sentence(tmp_path: Path) -> None:
    absent, latin = tmp_path / "absent" / "file", tmp_path / "latin.csv"
    latin.write_bytes("Gr\u00f6\u00dfe".encode("latin-1"))
    with pytest.raises(ConfigError, match=f"^{absent}: the plan cannot be read: No such file or directory$"):
        read_text(absent, "plan")
    with pytest.raises(ConfigError, match=f"^{latin}: the file is not UTF-8 text: invalid start byte at byte 2$"):
        read_text(latin, "file")
    with pytest.raises(ConfigError, match=f"^{absent}: the plan cannot be written: No such file or directory$"):
        write_text(absent, "", "plan")
