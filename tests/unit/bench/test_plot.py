from pathlib import Path
from typing import Any

from bench.plot import draw


def test_the_plot_is_a_picture(result: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "images" / "bench.png"
    draw(result, path)
    assert path.read_bytes().startswith(b"\x89PNG")
