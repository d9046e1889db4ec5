"""The account of this process. In a container it is often a bare number: without a name, a home folder, or both."""

from __future__ import annotations

import getpass
import os
import pwd
import socket
from pathlib import Path


def whoami() -> str:
    """The person, or account, that runs this command, and where."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # KeyError before Python 3.13
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def has_name() -> bool:
    """Whether the system knows this account."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def home_folder() -> Path | None:
    """None where ``HOME`` is not set and the system does not know the account."""
    try:
        return Path.home()
    except RuntimeError:
        return None
