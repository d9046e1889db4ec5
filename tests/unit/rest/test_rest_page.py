"""docs/rest.md and the API say the same."""

from __future__ import annotations

import re
from pathlib import Path

import click

from srm_common.cli.commands.serve import serve_command
from srm_common.rest import faults
from srm_common.rest.app import create_app
from srm_common.rest.schemas import Fault
from tests.unit.rest.conftest import Stage

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "rest.md").read_text(encoding="utf-8")
WORDS = set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)))


def codes() -> set[str]:
    """Every code that the API's sources know."""
    found = {code for _, code in faults.OF_CLASS.values()} | set(faults.OF_STATUS.values()) | {"http_error"}
    for package in ("rest", "airflow_bridge"):
        for file in (ROOT / "srm_common" / package).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            found |= set(re.findall(r"ApiError\(\s*\d+,\s*\"([a-z_]+)\"", text))
            found |= set(re.findall(r"Fault\(\s*code=\"([a-z_]+)\"", text))
            found |= set(re.findall(r"^[A-Z_]+ = \"([a-z]+_site)\"$", text, re.MULTILINE))
    return found


def test_every_code_is_explained() -> None:
    assert codes() - WORDS == set()
    assert len(codes()) > 30
    assert Fault.model_fields.keys() >= {"code", "message", "flow", "field"}


def test_every_route_of_version_2_is_listed(stage: Stage) -> None:
    listed = {
        route.replace("F", "/flows/{source}/{target}", 1) if route.startswith("F") else route
        for row in re.findall(r"^\| (`(?:GET|POST|PUT) .*?) \|", PAGE, re.MULTILINE)
        for _, route in re.findall(r"`(GET|POST|PUT) ([^`?]+)(?:\?[^`]*)?`", row)
    }
    there = {path.removeprefix("/api/v2") for path in create_app(stage.context).openapi()["paths"]}
    there = {path for path in there if not path.startswith("/api/v1/") and path != "/metrics"}
    assert listed == there


def test_every_option_of_serve_is_explained() -> None:
    assert isinstance(serve_command, click.Command)
    options = {word for param in serve_command.params for word in param.opts if word.startswith("--")}
    assert options - set(re.findall(r"--[a-z-]+", PAGE)) == {"--output"}
