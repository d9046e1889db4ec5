"""What srm-control makes of its environment, and of what is no Airflow; a real one is asked in tests/airflow."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from srm_common.airflow_rest import AirflowRest
from srm_common.cli.airflow_home import AirflowHome
from srm_common.errors import AirflowError, ConfigError
from srm_common.testing.ports import ReservedPort


class NoAirflow(BaseHTTPRequestHandler):
    """Some other web server: a page for everything."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>hello</html>")

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def no_airflow() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), NoAirflow)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_without_an_address_there_is_no_airflow() -> None:
    assert AirflowRest.from_environment({}) is None
    assert AirflowRest.from_environment({"SRM_AIRFLOW_URL": " "}) is None


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"SRM_AIRFLOW_URL": "airflow:8080"}, "SRM_AIRFLOW_URL must be an address such as http://airflow:8080"),
        ({"SRM_AIRFLOW_URL": "http://u:p@airflow"}, "SRM_AIRFLOW_URL must hold no login"),
        ({"SRM_AIRFLOW_URL": "http://x", "SRM_AIRFLOW_USER": "srm-test-nobody"}, "there is no password"),
    ],
)
def test_a_wrong_environment_is_one_sentence(environment: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        AirflowRest.from_environment(environment)
    assert "p@" not in str(refused.value)


def test_a_login_is_taken_from_the_environment() -> None:
    made = AirflowRest.from_environment(
        {"SRM_AIRFLOW_URL": "https://airflow/x/", "SRM_AIRFLOW_USER": "ann", "SRM_AIRFLOW_PASSWORD": "hush"}
    )
    assert made is not None
    assert (made.url, made.user) == ("https://airflow/x", "ann")


def test_nobody_answers() -> None:
    port = ReservedPort()
    with pytest.raises(AirflowError, match=r"did not answer: .*refused.*; check SRM_AIRFLOW_URL"):
        AirflowRest(f"http://{port.address}").variable("x")
    port.release()


def test_somebody_else_answers(no_airflow: str) -> None:
    with pytest.raises(AirflowError, match="is no Airflow: GET /api/v2/variables/a%2Fb brought no JSON"):
        AirflowRest(no_airflow).variable("a/b")


def test_a_home_needs_an_airflow_in_it(tmp_path: Path) -> None:
    assert AirflowHome.from_environment({}) is None
    assert AirflowHome.from_environment({"AIRFLOW_HOME": str(tmp_path / "none")}) is None
    assert AirflowHome.from_environment({"AIRFLOW_HOME": str(tmp_path)}) is None
    (tmp_path / "airflow.cfg").touch()
    found = AirflowHome.from_environment({"AIRFLOW_HOME": str(tmp_path)})
    assert found is not None
    assert found.folder == tmp_path
