"""What numba keeps of the loops is looked up by the text of all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from srm_common.wire.reencoding import record_walk

FOLDER = Path(record_walk.__file__).parent


def test_what_is_kept_depends_on_every_file_that_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    before = record_walk._text()
    files = [
        path.name
        for path in FOLDER.glob("*.py")
        if any(line.startswith(("@compiled", "    @overload(")) for line in path.read_text().splitlines())
    ]
    assert len(files) >= 4
    for changed in files:

        def text(package: str, name: str, changed: str = changed) -> bytes:
            assert package == "srm_common.wire.reencoding"
            return (FOLDER / name).read_bytes() + (b"#" if name == changed else b"")

        monkeypatch.setattr(record_walk, "get_data", text)
        assert record_walk._text() != before, changed


def test_loops_are_kept_under_that_text() -> None:
    pytest.importorskip("numba", reason="numba is not installed: pip install 'srm-kafka[transforms]'")
    plain = record_walk.walk.py_func  # type: ignore[attr-defined]
    assert plain.__qualname__ == f"walk_{record_walk._text()}"
