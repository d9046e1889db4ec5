"""The one sentence with which a Spark application says why it failed: on standard error, and for the task that has
submitted it in a file, since not all versions of Airflow's Spark provider tell what spark-submit printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

#: Names the file, in the environment of the application and of ``srm-spark-submit``.
FILE = "SRM_LAST_WORD"


def say_last(sentence: str) -> None:
    """Called by the application, before it ends."""
    if path := os.environ.get(FILE):
        try:
            Path(path).write_text(sentence, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            print(f"the reason could not be written for Airflow's task: {error}", file=sys.stderr)
    print(f"srm: {sentence}", file=sys.stderr)


def last_word_file(folder: Path) -> Mapping[str, str]:
    """The variable for an application whose :func:`.run_folder` that is."""
    return {FILE: str(folder / "last-word")}


def last_word(folder: Path) -> str | None:
    """What the application has said; None where it has ended without a word."""
    try:
        return Path(last_word_file(folder)[FILE]).read_text(encoding="utf-8", errors="replace").strip() or None
    except FileNotFoundError:
        return None
