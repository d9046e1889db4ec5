"""What the page is made of, and how it is handed out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from srm_common.rest.pages import page
from tests.unit.rest.conftest import Stage

FOLDER = Path(page.__file__).parent / "page"
MODULES = sorted(FOLDER.glob("*.js"))
_NAMES = re.compile(r"^import \{([^}]*)\} from \"\./(\w+\.js)\";$", re.MULTILINE)
_EXPORTED = re.compile(r"^export (?:async )?(?:function|const) (\w+)", re.MULTILINE)


def files_named(shell: str) -> set[str]:
    return set(re.findall(r'(?:src|href)="(page/[^"]+)"', shell))


@pytest.mark.parametrize("path", ["/", "/ui"])
def test_the_shell_is_for_everybody_and_allows_only_its_own_files(stage: Stage, path: str) -> None:
    answer = stage.client(None).get(path)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-cache"
    policy = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'self'"
    assert "<style" not in answer.text
    assert not re.search(r"<script(?![^>]* src=)", answer.text)
    assert not re.search(r"\son\w+=|\sstyle=", answer.text)


def test_everything_that_the_shell_names_is_there_and_may_be_kept(stage: Stage) -> None:
    client = stage.client(None)
    named = files_named(client.get("/").text)
    assert {name.rpartition("/")[2] for name in named} > {"main.js", "sheets.css"}
    for name in named:
        answer = client.get(f"/{name}")
        assert answer.status_code == 200, name
        assert "immutable" in answer.headers["cache-control"]
        if not name.endswith("sheets.css"):
            assert answer.content == (FOLDER / name.split("/", 2)[2]).read_bytes()
    plain = client.get(f"/{sorted(named)[0]}", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers


def test_all_sheets_are_one_file(stage: Stage) -> None:
    sheets = stage.client(None).get("/page/x/sheets.css").text
    for sheet in FOLDER.rglob("*.css"):
        assert sheet.read_text(encoding="utf-8") in sheets, sheet.name


def test_all_modules_are_asked_for_at_once(stage: Stage) -> None:
    named = {name.rpartition("/")[2] for name in files_named(stage.client(None).get("/").text)}
    assert named >= {module.name for module in MODULES}


def test_a_page_from_before_an_upgrade_gets_files_that_it_does_not_keep(stage: Stage) -> None:
    answer = stage.client(None).get("/page/0123456789ab/main.js")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "name", ["nothing.js", "index.html", "..%2Fpage.py", "../page.py", "vendor/", "vendor/../main.js"]
)
def test_nothing_else_is_handed_out(stage: Stage, name: str) -> None:
    # The client itself would take dots out of a plain path.
    answer = stage.client(None).get(f"/page/x/{name.replace('../', '%2e%2e/')}")
    assert answer.status_code == 404
    assert answer.json()["errors"][0]["code"] == "not_found"


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_what_a_module_imports_is_exported_there_and_used(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    for names, other in _NAMES.findall(text):
        wanted = {name.strip() for name in names.split(",") if name.strip()}
        assert wanted <= set(_EXPORTED.findall((FOLDER / other).read_text(encoding="utf-8"))), other
        rest = text.replace(f'{{{names}}} from "./{other}"', "")
        assert {name for name in wanted if not re.search(rf"\b{name}\b", rest)} == set()
    assert len(text.splitlines()) < 400


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_no_module_makes_html_of_texts_or_loads_anything_from_elsewhere(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval(", "new Function"):
        assert way not in text
    assert re.findall(r"https?://[^\s\"]+", text) in ([], ["http://www.w3.org/2000/svg"])


def test_every_colour_that_is_used_is_there_in_light_and_dark() -> None:
    light, dark = (FOLDER / "theme.css").read_text(encoding="utf-8").split(':root[data-theme="dark"]')
    given = set(re.findall(r"^\s*--([\w-]+):", light, re.MULTILINE))
    own = {"ink", "soft", "strong"}
    for sheet in FOLDER.glob("*.css"):
        used = set(re.findall(r"var\(--([\w-]+)", sheet.read_text(encoding="utf-8")))
        assert used - own <= given, sheet.name
    same = {"sans", "mono", "radius", "accent-text"}
    assert given - same == set(re.findall(r"^\s*--([\w-]+):", dark, re.MULTILINE))
