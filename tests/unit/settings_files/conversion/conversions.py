"""Files of other tools that are converted, and loaded as what they have become."""

from __future__ import annotations

from pathlib import Path

from srm_common.settings_files.configuration import Configuration, load_configuration
from srm_common.settings_files.conversion.conversion import Conversion, Tool, convert


def loaded(made: Conversion, tmp_path: Path) -> Configuration:
    path = tmp_path / "converted.properties"
    path.write_text(made.text)
    return load_configuration(path)


def made_of(tmp_path: Path, text: str, name: str = "mm2.properties", tool: Tool | None = None) -> Conversion:
    path = tmp_path / name
    path.write_text(text)
    return convert(path, tool)
