"""The machine's own Chromium."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW = "scripts/setup.sh --tests installs it, or says how; or set SRM_CHROMIUM=/path/to/chrome"
#: A container's /dev/shm is often too small for it, and a graphics card that is emulated takes more than none.
ARGUMENTS = ("--disable-dev-shm-usage", "--disable-gpu", "--force-color-profile=srgb", "--font-render-hinting=none")


def chromium() -> Path | None:
    """None where there is none."""
    chosen = os.environ.get("SRM_CHROMIUM")
    if chosen is not None:
        return Path(chosen) if os.access(chosen, os.X_OK) else None
    found = next(filter(None, map(shutil.which, NAMES)), None)
    return None if found is None else Path(found)
