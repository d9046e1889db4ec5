"""The app behind a path of its own, and behind proxies that add one to it of which it knows nothing."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import pytest
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.unit.rest.conftest import Stage
from tests.unit.rest.people import HEADER

#: Where a browser sees what the app has at /srm/.
OUTSIDE = "https://tools.example/kafka/srm/"


@pytest.fixture(scope="module")
def mounted(same_stage: Stage) -> TestClient:
    """At /srm, as in Airflow."""
    server = Starlette(routes=[Mount("/srm", app=same_stage.app)])
    return TestClient(server, headers={HEADER: "viewer"}, follow_redirects=False)


@pytest.mark.parametrize(
    ("asked", "led_to"),
    [
        ("docs/", "docs"),
        ("help", "help/operations"),
        ("api/v2/flows/?search=a%2Fb&limit=2", "api/v2/flows?search=a%2Fb&limit=2"),
        ("api/v2/flows/a/b%C3%A9/", "api/v2/flows/a/b%C3%A9"),
        ("api/v2/flows/a/b:c/", "api/v2/flows/a/b:c"),
    ],
)
def test_redirections_stay_behind_the_prefix(mounted: TestClient, asked: str, led_to: str) -> None:
    answer = mounted.get(f"/srm/{asked}")
    assert answer.status_code == 307
    assert urljoin(OUTSIDE + asked, answer.headers["location"]) == OUTSIDE + led_to


def test_the_description_names_the_address_beside_it(mounted: TestClient) -> None:
    (server,) = mounted.get("/srm/openapi.json").json()["servers"]
    assert urljoin(OUTSIDE + "openapi.json", server["url"]) == OUTSIDE


@pytest.mark.parametrize("page", ["", "ui", "docs", "help/operations"])
def test_pages_load_what_is_beside_them(mounted: TestClient, page: str) -> None:
    loaded = re.findall(r"(?:src|href)=\"([^\"#]+)\"", mounted.get(f"/srm/{page}").text)
    assert loaded
    for place in loaded:
        assert not place.startswith("/"), place
