"""A password file that is edited while the service runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from srm_common.errors import ConfigError
from srm_common.rest.serving.logins import Login
from srm_common.rest.serving.watched_logins import WatchedLogins


def test_who_is_added_may_come_in_and_who_is_gone_may_not(tmp_path: Path) -> None:
    file = tmp_path / "logins"
    file.write_text("ann:op:sesame\n")
    watched = WatchedLogins(file, [Login("root", "op", "key")])
    assert watched.find("ann", "sesame") == Login("ann", "op", "sesame")
    assert watched.find("bob", "plain") is None
    file.write_text("bob:viewer:plain\n# ann has left\n")
    assert watched.find("bob", "plain") == Login("bob", "viewer", "plain")
    # Although she was right a moment ago.
    assert watched.find("ann", "sesame") is None
    assert watched.find("root", "key") is not None


def test_a_file_put_in_its_place_counts_too(tmp_path: Path) -> None:
    file = tmp_path / "logins"
    file.write_text("ann:op:old\n")
    watched = WatchedLogins(file)
    other = tmp_path / "new"
    other.write_text("ann:user:new\n")
    other.replace(file)
    assert watched.find("ann", "old") is None
    assert watched.find("ann", "new") == Login("ann", "user", "new")


def test_a_file_that_breaks_locks_nobody_out_and_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "logins"
    file.write_text("ann:op:sesame\n")
    watched = WatchedLogins(file)
    file.write_text("ann:op:sesame\nbob:root:hush\n")
    for _ in range(3):
        assert watched.find("ann", "sesame") is not None
        assert watched.find("bob", "hush") is None
    (told,) = caplog.messages
    assert f"{file}:2: the role is one of viewer, user, op; the logins from before go on to count" in told
    assert "hush" not in told
    file.unlink()
    assert watched.find("ann", "sesame") is not None
    assert "the password file cannot be read" in caplog.messages[-1]
    file.write_text("bob:user:hush\n")
    assert watched.find("bob", "hush") is not None
    assert watched.find("ann", "sesame") is None


def test_it_does_not_begin_with_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        WatchedLogins(tmp_path / "none")
