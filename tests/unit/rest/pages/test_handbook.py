"""The pages of docs/ as the web app hands them out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from fastapi.testclient import TestClient

from srm_common.domain.health.alarms import anchor
from srm_common.domain.health.health import AlarmKind, HealthState
from srm_common.rest.pages import handbook
from srm_common.rest.pages.handbook import markdown_page
from tests.unit.rest.conftest import Stage


def known(target: str) -> str | None:
    return {"there.md": "there", "#here": "#here"}.get(target)


def test_headings_have_githubs_anchors() -> None:
    page = markdown_page("# All of `it`\n\n## State: lost data\n\n### What, again?\n\n### What, again?\n", known)
    assert page.title == "All of it"
    assert page.anchors == {"all-of-it", "state-lost-data", "what-again", "what-again-1"}
    assert '<h2 id="state-lost-data">State: lost data</h2>' in page.html


def test_links_lead_to_what_is_there_and_others_are_text() -> None:
    page = markdown_page("[a](there.md) [**b**](away.md) [c](#here) ![picture](x.png)", known)
    assert page.html.strip() == '<p><a href="there">a</a> <strong>b</strong> <a href="#here">c</a> </p>'


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "a <b onclick=x>b</b>", "`<img src=x>`", "# <i>x</i>"])
def test_markup_in_the_text_is_text(text: str) -> None:
    html = markdown_page(text, known).html
    assert "&lt;" in html
    assert not any(tag in html for tag in ("<script", "<b ", "<img", "<i>"))


def test_tables_are_tables() -> None:
    assert "<td>1</td>" in markdown_page("| a |\n|---|\n| 1 |\n", known).html


def test_comments_are_for_those_who_write() -> None:
    html = markdown_page("# A\n\n<!-- made by\n`x` -->\n\nb `<!-- c -->`\n", known).html
    assert html == '<h1 id="a">A</h1>\n<p>b <code>&lt;!-- c --&gt;</code></p>\n'


def test_a_page_of_nothing() -> None:
    assert markdown_page("", known).title == ""


PAGES = sorted(file.stem for file in (Path(__file__).parents[4] / "docs").glob("*.md"))


class Links(HTMLParser):
    """Where a page leads to, what it loads, and the places in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.places: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.found += [value for name in ("href", "src") if (value := given.get(name))]
        self.places += [value for value in [given.get("id")] if value]


@pytest.fixture(scope="module")
def anybody(same_stage: Stage) -> Iterator[TestClient]:
    with same_stage.client(None) as client:
        yield client


@pytest.fixture(scope="module")
def places_in(anybody: TestClient) -> Callable[[str], list[str]]:
    """The places in what a path leads to, which is there; most pages lead to the same few."""

    @cache
    def places(path: str) -> list[str]:
        answer = anybody.get(path)
        assert answer.status_code == 200, path
        return Links(answer.text).places

    return places


def test_it_begins_with_operations(anybody: TestClient) -> None:
    answer = anybody.get("/help", follow_redirects=False)
    assert answer.status_code == 307
    assert answer.headers["location"] == "help/operations"  # whatever the app is mounted under
    assert "<h1" in anybody.get("/help").text


def test_every_state_and_alarm_has_its_entry(anybody: TestClient) -> None:
    places = Links(anybody.get("/help/operations").text).places
    for what in (*HealthState, *AlarmKind):
        assert places.count(anchor(what)) == 1, what


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_whole_and_leads_nowhere_else(
    anybody: TestClient, places_in: Callable[[str], list[str]], name: str
) -> None:
    answer = anybody.get(f"/help/{name}")
    assert answer.status_code == 200
    assert "script-src 'self'; style-src 'self'" in answer.headers["content-security-policy"]
    links = Links(answer.text)
    assert len(set(links.places)) == len(links.places)
    for link in links.found:
        place = urlsplit(urljoin(f"http://testserver/help/{name}", link))
        if place.netloc != "testserver":
            assert place.scheme == "https"
            continue
        places = places_in(place.path)
        assert not place.fragment or unquote(place.fragment) in places, link
    # The text itself brings no markup along.
    assert not re.search(
        r"<(?!/?(?:a|code|em|h[1-6]|li|ol|p|pre|strong|t[a-z]+|ul|br|hr)\b)", handbook.entry(name).html
    )


def test_rules_and_dashboard_can_be_taken_along(anybody: TestClient) -> None:
    assert "alert: ReplicationLostData" in anybody.get("/help/monitoring/alert-rules.yaml").text
    assert anybody.get("/help/monitoring/grafana-dashboard.json").json()["panels"]


@pytest.mark.parametrize("path", ["none", "operations.md", "..%2FREADME", "%2e%2e/x", "monitoring/none", "adr"])
def test_nothing_else_is_handed_out(anybody: TestClient, path: str) -> None:
    answer = anybody.get(f"/help/{path}")
    assert answer.status_code == 404
    assert answer.json()["errors"][0]["code"] == "not_found"
