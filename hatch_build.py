"""What hatchling does besides: the pages of docs/ go into the wheel, where the web app serves them as its handbook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_HANDBOOK = "srm_common/rest/pages/handbook_text"


class Handbook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a wheel is put together. An editable one leads to a checkout, which has docs/ itself."""
        if version == "editable":
            return
        docs = Path(self.root) / "docs"
        for file in sorted([*docs.glob("*.md"), *docs.glob("monitoring/*.*")]):
            build_data["force_include"][str(file)] = f"{_HANDBOOK}/{file.relative_to(docs).as_posix()}"
