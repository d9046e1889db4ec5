"""What is installed is what was chosen."""

from __future__ import annotations

from email.message import Message
from typing import Any

import pytest

from scripts import dependencies


def test_this_environment_is_as_it_is_pinned(capsys: pytest.CaptureFixture[str]) -> None:
    assert dependencies.main() == 0, capsys.readouterr().out


def test_a_difference_is_named() -> None:
    pins = dependencies.pinned("# of tests\nClick==8.2.1\nrich==13.0 # why\ngone==1; python_version < '3'\n")
    assert pins == {"click": "8.2.1", "rich": "13.0", "gone": "1"}
    found = list(dependencies.differences({"click": "8.2.1", "rich": "14.0", "stray": "1", "pip": "9"}, pins))
    assert [one.split(" is installed")[0] for one in found] == ["rich 14.0", "stray 1"]


def test_versions_that_are_known_to_be_bad() -> None:
    bad = dependencies.known_bad("# why\nJinja2>=3.0,<3.1.6 a hole\nh11==0.14.0 another\n")
    assert [(versions.name, versions.reason) for versions in bad] == [("jinja2", "a hole"), ("h11", "another")]
    for version, told in (("2.11", []), ("3.1.5", ["jinja2 3.1.5 must not be used: a hole"]), ("3.1.6", [])):
        assert list(dependencies.used_anyway({"jinja2": version, "h11": "0.16.0"}, bad)) == told
    assert list(dependencies.used_anyway({"h11": "0.14.0"}, bad)) == ["h11 0.14.0 must not be used: another"]


def test_the_list_of_bad_versions_can_be_read() -> None:
    versions = dependencies.known_bad((dependencies.ROOT / "scripts/known-bad.txt").read_text())
    assert versions
    assert all(len(version.versions) and version.reason for version in versions)


class _Told:
    def __init__(self, **fields: str) -> None:
        self.metadata = Message()
        for name, text in fields.items():
            self.metadata[name.replace("_", "-")] = text


@pytest.mark.parametrize(
    ("fields", "good"),
    [
        ({"License_Expression": "Apache-2.0"}, True),
        ({"License": "MIT License\n\nPermission is hereby"}, True),
        ({"Classifier": "License :: OSI Approved :: GNU Lesser General Public License v3 (LGPLv3)"}, True),
        ({"Classifier": "License :: OSI Approved :: GNU General Public License v3 (GPLv3)"}, False),
        ({"License_Expression": "AGPL-3.0-only"}, False),
        ({"License_Expression": "MIT OR GPL-2.0"}, True),
        ({"License": "proprietary"}, False),
        ({}, False),
    ],
)
def test_licences(fields: dict[str, str], good: bool) -> None:
    found: Any = _Told(**fields)
    assert dependencies.allowed(dependencies.licence(found)) is good


def test_what_users_get_is_a_part_of_what_is_installed() -> None:
    found = dependencies.shipped()
    assert {"confluent-kafka", "fastapi", "numpy", "apache-airflow-core"} <= found
    assert not {"pytest", "mypy", "atheris"} & found
