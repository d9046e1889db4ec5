"""The plugin in Airflow's own API server app: where it is mounted, who gets in, and what each role may do."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import pytest

from tests.unit.rest.rights import BAD_BODY, NEEDED, RIGHTS_OF, TAKEN

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

pytestmark = pytest.mark.airflow

ROLES = ("viewer", "user", "op", "admin")


@pytest.fixture(scope="module")
def anybody(
    tmp_path_factory: pytest.TempPathFactory, dags_folder: Path, airflow_database: None
) -> Iterator[TestClient]:
    """Airflow's whole app under a path of its own, on a database with the flows' DAGs; nobody is logged in."""
    from airflow import plugins_manager
    from airflow.api_fastapi import app as airflow_app
    from airflow.configuration import conf
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session
    from fastapi.testclient import TestClient

    from srm_common.airflow_bridge.plugin import SrmPlugin

    folder = tmp_path_factory.mktemp("plugin")
    (folder / "srm.properties").write_text(
        "clusters = a, b\na.bootstrap.servers = localhost:1\nb.bootstrap.servers = localhost:2\na->b.enabled = true\n"
    )
    (folder / "passwords.json").write_text(json.dumps({role: role for role in ROLES}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SRM_CONFIG", str(folder / "srm.properties"))
        patch.setenv("SRM_DATABASE", f"sqlite:///{folder}/metrics.db")
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", ",".join(f"{role}:{role}" for role in ROLES))
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE", str(folder / "passwords.json"))
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "x" * 64)
        patch.setenv("AIRFLOW__API__BASE_URL", "http://testserver/airflow")
        patch.setattr(airflow_app, "API_ROOT_PATH", "/airflow/")
        assert conf.get("api", "base_url") == "http://testserver/airflow"
        with create_session() as session:
            session.merge(DagBundleModel(name="dags-folder"))
        sync_bag_to_db(DagBag(str(dags_folder), bundle_name="dags-folder"), "dags-folder", None)
        airflow_app.purge_cached_app()
        plugins_manager._get_plugins.cache_clear()
        yield TestClient(airflow_app.create_app("core"), "http://testserver/airflow", follow_redirects=False)
        airflow_app.purge_cached_app()
        for app in SrmPlugin.fastapi_apps:
            app["app"].close()
    assert "srm-advertiser" not in {thread.name for thread in threading.enumerate()}, "it would log into later tests"


@pytest.fixture
def login(anybody: TestClient) -> Login:
    return Login(anybody)


class Login:
    def __init__(self, app: TestClient) -> None:
        self._app = app

    def __call__(self, role: str) -> TestClient:
        """A client that is logged in with that role."""
        from fastapi.testclient import TestClient

        answer = self._app.post("/auth/token", json={"username": role, "password": role})
        assert answer.status_code == 201, answer.text
        headers = {"Authorization": f"Bearer {answer.json()['access_token']}"}
        return TestClient(self._app.app, str(self._app.base_url), headers=headers, follow_redirects=False)


def test_the_page_is_in_the_menu_and_on_every_dag(login: Login) -> None:
    found = login("admin").get("/api/v2/plugins").json()["plugins"]
    (plugin,) = [one for one in found if one["name"] == "srm"]
    views = {view["destination"]: view for view in plugin["external_views"]}
    assert (views["nav"]["name"], views["nav"]["url_route"]) == ("Replication", "replications")
    assert "{DAG_ID}" in views["dag"]["href"]
    for view in views.values():
        for path in (view["href"], view["icon"]):
            assert not path.startswith("/"), "Airflow's page resolves it by its own base"
            assert login("viewer").get(f"/{path}").status_code == 200


@pytest.mark.parametrize("query", ["", "?dag=srm.a.b%3F"])
@pytest.mark.parametrize(
    ("seen", "asked"),
    [
        ("http://testserver/airflow/srm", "http://testserver/airflow/srm"),
        # Proxies that remove a prefix, of which Airflow knows all, a part, or nothing.
        ("https://tools.example/airflow/srm", "http://testserver/srm"),
        ("https://tools.example/team/airflow/srm", "http://testserver/airflow/srm"),
        ("https://tools.example/team/flows/srm", "http://testserver/srm"),
    ],
)
def test_a_missing_slash_is_added_where_the_browser_is(anybody: TestClient, seen: str, asked: str, query: str) -> None:
    answer = anybody.get(asked + query)
    assert answer.status_code == 307
    assert urljoin(seen + query, answer.headers["location"]) == f"{seen}/{query}"


def test_what_only_begins_alike_is_left_to_airflow(anybody: TestClient) -> None:
    assert anybody.get("/srmx").status_code != 307


def test_no_data_without_a_login(anybody: TestClient) -> None:
    paths = anybody.get("/srm/openapi.json").json()["paths"]
    assert len(paths) > 20
    for path, methods in paths.items():
        for method in methods:
            answer = anybody.request(method, "/srm" + path.replace("{", "").replace("}", ""), json={})
            assert answer.status_code == 401, (method, path, answer.text)
            assert answer.json()["errors"][0]["code"] == "login_needed"


@pytest.mark.parametrize("header", ["Bearer nonsense", "Bearer", "Basic YTpi"])
def test_a_login_that_is_none(anybody: TestClient, header: str) -> None:
    answer = anybody.get("/srm/api/v2/flows", headers={"Authorization": header})
    assert answer.status_code == 401, answer.text
    (fault,) = answer.json()["errors"]
    assert "log in, then reload the page" in fault["message"], "the page shows it when a session has ended"


@pytest.mark.parametrize(
    ("role", "rights"),
    [
        ("viewer", ["read"]),
        ("user", ["read", "trigger"]),
        ("op", ["read", "trigger", "edit"]),
        ("admin", ["read", "trigger", "edit"]),
    ],
)
def test_rights_are_those_of_airflows_roles(login: Login, role: str, rights: list[str]) -> None:
    client = login(role)
    assert client.get("/srm/api/v2/whoami").json()["rights"] == rights
    (flow,) = client.get("/srm/api/v2/flows").json()["flows"]
    assert (flow["flow"], flow["dag_id"], flow["dag_url"]) == ("a->b", "srm.a.b", "/dags/srm.a.b")
    sent = {"pause": {}, "resume": {}, "moves": {"kind": 5}}
    answers = {verb: client.post(f"/srm/api/v2/flows/a/b/{verb}", json=body).status_code for verb, body in sent.items()}
    assert answers == {
        "pause": 200 if "trigger" in rights else 403,
        "resume": 200 if "trigger" in rights else 403,
        # For those who may, what is refused is the body.
        "moves": 422 if "edit" in rights else 403,
    }


@pytest.mark.parametrize("place", ["permissions.get_auth_manager", "web_app.get_user"])
def test_an_auth_manager_that_does_not_respond_is_no_bug_of_the_page(
    login: Login, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    client = login("op")

    def away(*_: object) -> object:
        raise TimeoutError("https://login.example/?client_secret=hush")

    class AuthManager:
        serialize_user = is_authorized_dag = staticmethod(lambda *_, **__: away())

    by_place = {"permissions.get_auth_manager": AuthManager, "web_app.get_user": away}
    monkeypatch.setattr(f"srm_common.airflow_bridge.web.{place}", by_place[place])
    for answer in (client.get("/srm/api/v2/flows"), client.post("/srm/api/v2/flows/a/b/pause", json={})):
        (fault,) = answer.json()["errors"]
        assert (answer.status_code, fault["code"]) == (502, "airflow_failed"), answer.text
        assert "auth manager does not respond" in fault["message"]
        assert "hush" not in answer.text


@pytest.mark.parametrize("role", ROLES)
def test_each_role_of_airflow_may_send_what_it_has_the_right_to(login: Login, role: str) -> None:
    client = login(role)
    described = client.get("/srm/openapi.json").json()["paths"]
    changes = {(verb.upper(), path) for path, verbs in described.items() for verb in verbs if verb != "get"}
    assert changes == set(NEEDED)
    for (method, path), right in NEEDED.items():
        answer = client.request(method, "/srm" + path.format(source="a", target="b"), json=BAD_BODY)
        taken = TAKEN if right in RIGHTS_OF[role] else (403,)
        assert answer.status_code in taken, (method, path, answer.text)
        assert answer.status_code == 200 or all(fault["message"] for fault in answer.json()["errors"])


def test_every_role_of_airflow_reads_the_same(login: Login) -> None:
    """Of what the store, the file and Airflow know; clusters are not there."""
    from srm_common.rest.live import TAG

    clients = [login(role) for role in ROLES]
    described = clients[0].get("/srm/openapi.json").json()["paths"]
    reads = [path for path, verbs in described.items() if "get" in verbs and TAG not in verbs["get"].get("tags", ())]
    assert len(reads) > 15
    parts = {"source": "a", "target": "b", "cluster": "a", "metric": "byte-rate", "run_id": "none", "kind": "failover"}
    for path in reads:
        asked = "/srm" + re.sub(r"\{(\w+)(:path)?\}", lambda found: parts.get(found[1], "none"), path)
        answers = {client.get(asked).status_code for client in clients}
        assert len(answers) == 1, (path, answers)
        assert answers <= {200, 404, 409, 422}, (path, answers)


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
    ],
)
def test_a_page_of_another_site_changes_nothing_by_the_cookie(
    anybody: TestClient, login: Login, headers: dict[str, str]
) -> None:
    """The browser sends it along."""
    token = login("admin").headers["Authorization"].partition(" ")[2]
    for method, path in NEEDED:
        sent = {"Cookie": f"_token={token}", "content-type": "application/json"} | headers
        answer = anybody.request(method, "/srm" + path.format(source="a", target="b"), content="{}", headers=sent)
        assert answer.status_code in (403, 415), (method, path, answer.text)
        assert answer.json()["errors"][0]["code"] in ("cross_site", "json_expected")


@pytest.mark.parametrize(
    "path", ["help/..%2f..%2fairflow.cfg", "help/%2e%2e%2fREADME", "page/x/..%2f..%2fapp.py", "docs/..%2fapp.py"]
)
def test_files_beside_those_of_the_page_are_nobody_s(anybody: TestClient, path: str) -> None:
    assert anybody.get(f"/srm/{path}").status_code == 404


def test_the_cookie_of_the_browser_is_a_login(anybody: TestClient, login: Login) -> None:
    token = login("viewer").headers["Authorization"].partition(" ")[2]
    answer = anybody.get("/srm/api/v2/whoami", headers={"Cookie": f"_token={token}"})
    assert (answer.status_code, answer.json()["name"]) == (200, "viewer")


def test_a_file_that_is_mended_after_the_first_request_names_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from srm_common.airflow_bridge.web.web_app import airflow_app

    file = tmp_path / "srm.properties"
    monkeypatch.setenv("SRM_CONFIG", str(file))
    monkeypatch.delenv("SRM_DATABASE", raising=False)
    app, advertiser = airflow_app()
    try:
        context = app.state.context
        assert Path(context.store.location) == Path(os.environ["AIRFLOW_HOME"]) / "srm-metrics.db"
        file.write_text(
            "clusters = a, b\na.bootstrap.servers = localhost:1\nb.bootstrap.servers = localhost:2\n"
            f"metrics.database.url = sqlite:///{tmp_path}/named.db\n"
        )
        assert Path(context.store.location) == tmp_path / "named.db"
        context.store.close()
    finally:
        advertiser.close()


def test_the_process_of_a_task_gets_the_plugin_without_its_weight() -> None:
    import subprocess
    import sys

    script = (
        "import sys, srm_common.airflow_bridge.plugin; print({'fastapi', 'sqlalchemy', 'uvicorn'} & set(sys.modules))"
    )
    bare = "import sys, airflow.plugins_manager; print({'fastapi', 'sqlalchemy', 'uvicorn'} & set(sys.modules))"
    loaded = [
        subprocess.run([sys.executable, "-c", code], env=dict(os.environ), capture_output=True, text=True, timeout=300)
        for code in (script, bare)
    ]
    assert [done.returncode for done in loaded] == [0, 0], loaded
    assert loaded[0].stdout.splitlines()[-1] == loaded[1].stdout.splitlines()[-1], "no more than Airflow itself"
