#!/usr/bin/env python3
"""Writes the drawings of ARCHITECTURE.md from the code: ``python scripts/architecture.py [--check]``.

Floors and rooms come from the import contracts in pyproject.toml, which ``make lint`` holds; what a room is, from its
docstring. The way of a range is a list of modules; the values between two of them are the classes that both name.
"""

from __future__ import annotations

import ast
import sys
import textwrap
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "ARCHITECTURE.md"
PACKAGE = "srm_common"
#: Modules that a range of offsets passes, from the topics of a flow to the translation of offsets in them.
WAY = (
    "usecases.runs.replicate",
    "replication.driver.passes",
    "domain.runs.copying",
    "replication.spark.spark_pass",
    "replication.slots.slot",
    "replication.slots.fetching",
    "replication.slots.chunk",
    "replication.slots.sending",
    "wire.state.segments",
    "kafka.state.segment_log",
    "usecases.offsets.exact_translation",
    "domain.offsets.translation",
)
#: Values that are everywhere, so that they say nothing about one step.
EVERYWHERE = {"FlowSettings", "FlowName", "ClusterSettings", "ClusterLink", "Partition", "TopicPartition"}


#: Where values are defined that travel.
VALUES = tuple(f"{PACKAGE}.{package}" for package in ("domain", "wire", "replication"))


def main(arguments: list[str]) -> int:
    text = DOCUMENT.read_text()
    fresh = replaced(replaced(text, "rooms", rooms()), "range", way())
    if "--check" in arguments:
        if fresh != text:
            print("ARCHITECTURE.md is not what scripts/architecture.py writes; run it", file=sys.stderr)
        return int(fresh != text)
    DOCUMENT.write_text(fresh)
    return 0


def replaced(text: str, name: str, body: str) -> str:
    """``text`` with what lies between the marks of ``name`` replaced. Raises ValueError where they are missing."""
    begin, end = f"<!-- {name}: written by scripts/architecture.py -->", f"<!-- end of {name} -->"
    before, mark, rest = text.partition(begin)
    _, closing, after = rest.partition(end)
    if not mark or not closing:
        raise ValueError(f"ARCHITECTURE.md has no marks for {name}")
    return f"{before}{begin}\n{body}\n{end}{after}"


def contracts() -> dict[str, list[list[str]]]:
    """Package -> its layers, the highest first, each a list of rooms."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found = {}
    for contract in settings["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            layers = [
                layer.replace("(", "").replace(")", "").replace(":", "|").split("|") for layer in contract["layers"]
            ]
            found[contract.get("containers", [""])[0]] = [[room.strip() for room in layer] for layer in layers]
    return found


def rooms() -> str:
    layered = contracts()
    inside = {package.split(".", 1)[1].replace(".", "/"): layers for package, layers in layered.items() if package}
    lines = [
        "```",
        "Imports point down, between floors and between the rooms of a floor (top to bottom, left to right: `>`).",
        "",
    ]
    for layer in layered[""]:
        floors = [name.split(".")[-1] for name in layer]
        if len(floors) == 1 and floors[0] in inside:
            lines += drawn(floors[0], inside[floors[0]])
        else:
            lines.append(f"  {' · '.join(floors)}")
            for floor in floors:
                for name in inside:
                    if name.split("/")[0] == floor:
                        lines += drawn(f"  {name}", inside[name])
    lines += ["```", "", "| room | what it is |", "|---|---|"]
    ordered = [f"{floor}/{room}" for floor, layers in inside.items() for layer in layers for room in layer]
    packages = {found.parent for found in (ROOT / PACKAGE).glob("*/**/__init__.py")}
    nested = {path.relative_to(ROOT / PACKAGE).as_posix() for path in packages if path.parent != ROOT / PACKAGE}
    for room in [*(room for room in ordered if room in nested), *sorted(nested.difference(ordered))]:
        lines.append(f"| `{room}` | {said(ROOT / PACKAGE / room / '__init__.py')} |")
    return "\n".join(lines)


def drawn(floor: str, layers: list[list[str]]) -> list[str]:
    """A floor with its rooms, wrapped."""
    label, lines = f"  {floor:<14}" if len(floor) < 14 else f"  {floor}  ", []
    current = label
    for number, layer in enumerate(layers):
        part = ("  >  " if number else "") + " · ".join(layer)
        if len(current) + len(part) > 112:
            lines.append(current)
            current = " " * len(label)
        current += part
    return [*lines, current]


def said(path: Path) -> str:
    """The first paragraph of a module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(text.split("\n\n")[0].split())


def way() -> str:
    lines = ["```"]
    for number, module in enumerate(WAY):
        path = ROOT / PACKAGE / f"{module.replace('.', '/')}.py"
        what = textwrap.shorten(said(path).split(". ")[0].rstrip("."), 80)
        lines.append(f"{module:<38} {what}")
        if number + 1 < len(WAY):
            shared = sorted(classes(module) & classes(WAY[number + 1]) - EVERYWHERE)
            lines.append(f"   │ {', '.join(shared)}" if shared else "   │")
    return "\n".join([*lines, "```"])


def classes(module: str) -> set[str]:
    """Classes of this project that a module defines or imports and names in its code."""
    tree = ast.parse((ROOT / PACKAGE / f"{module.replace('.', '/')}.py").read_text())
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(VALUES):
            names |= {alias.name for alias in node.names}
    return {name for name in names if name[0].isupper() and not name.isupper()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
