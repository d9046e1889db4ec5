"""What srm-control makes of its environment, and of what is no Airflow; a real one is asked in tests/airflow."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from srm_common import airflow_rest
from srm_common.airflow_rest import AirflowRest
from srm_common.cli.filter_store import AirflowHome
from srm_common.errors import AirflowError, ConfigError
from srm_common.testing.ports import ReservedPort


class NoAirflow(BaseHTTPRequestHandler):
    """Some other web server: a page for everything."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>hello</html>")

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def no_airflow() -> Iterator[str]:
    with serving(NoAirflow) as url:
        yield url


def test_without_an_address_there_is_no_airflow() -> None:
    assert AirflowRest.from_environment({}) is None
    assert AirflowRest.from_environment({"SRM_AIRFLOW_URL": " "}) is None


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"SRM_AIRFLOW_URL": "airflow:8080"}, "SRM_AIRFLOW_URL must be an address such as http://airflow:8080"),
        ({"SRM_AIRFLOW_URL": "http://u:p@airflow"}, "SRM_AIRFLOW_URL must not contain credentials"),
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
    with pytest.raises(AirflowError, match=r"did not respond: .*refused.*; check SRM_AIRFLOW_URL"):
        AirflowRest(f"http://{port.address}").variable("x")
    port.release()


def test_somebody_else_answers(no_airflow: str) -> None:
    with pytest.raises(AirflowError, match="is not an Airflow: GET /api/v2/variables/a%2Fb returned no JSON"):
        AirflowRest(no_airflow).variable("a/b")


def test_a_home_needs_an_airflow_in_it(tmp_path: Path) -> None:
    assert AirflowHome.from_environment({}) is None
    assert AirflowHome.from_environment({"AIRFLOW_HOME": str(tmp_path / "none")}) is None
    assert AirflowHome.from_environment({"AIRFLOW_HOME": str(tmp_path)}) is None
    (tmp_path / "airflow.cfg").touch()
    home = AirflowHome.from_environment({"AIRFLOW_HOME": str(tmp_path)})
    assert home is not None
    assert home.folder == tmp_path


@pytest.mark.parametrize("answer", ["", "[]", "[1]", "[{}]", '{"is_paused": true}', "[{"])
def test_a_home_that_answers_something_else_is_one_sentence(tmp_path: Path, answer: str) -> None:
    airflow = tmp_path / "airflow"
    airflow.write_text(f"#!/bin/sh\necho '{answer}'\n")
    airflow.chmod(0o755)
    home = AirflowHome(tmp_path, str(airflow))
    with pytest.raises(AirflowError, match=f"airflow dags details in {tmp_path} failed: "):
        home.is_paused("d")
    with pytest.raises(AirflowError, match=f"airflow dags trigger in {tmp_path} failed: "):
        home.start_run("d", "")


def test_a_home_whose_database_takes_no_variable_says_why(tmp_path: Path) -> None:
    """As a database that is read-only; the command ends with 0."""
    airflow = tmp_path / "airflow"
    airflow.write_text(
        "#!/bin/sh\n"
        "echo \"Variable import failed: OperationalError('attempt to write a readonly database')\"\n"
        "echo '0 of 1 variables successfully updated.'\n"
        "echo '1 variable(s) failed to be updated.'\n"
    )
    airflow.chmod(0o755)
    with pytest.raises(AirflowError, match=r"did not write variable v: .*attempt to write a readonly database"):
        AirflowHome(tmp_path, str(airflow)).set_variable("v", "{}", "d")
    airflow.write_text("#!/bin/sh\necho '1 of 1 variables successfully updated.'\n")
    AirflowHome(tmp_path, str(airflow)).set_variable("v", "{}", "d")


class ForgetfulAirflow(BaseHTTPRequestHandler):
    """An Airflow whose tokens are good for one request."""

    tokens: ClassVar[list[str]] = []
    offsets: ClassVar[list[int]] = []

    def do_POST(self) -> None:
        self.tokens.append(f"token {len(self.tokens)}")
        self._answer(201, {"access_token": self.tokens[-1]})

    def do_GET(self) -> None:
        spent = self.headers["Authorization"] != f"Bearer {self.tokens[-1]}"
        self.tokens[-1] += ", spent"
        if spent:
            self._answer(401, {"detail": "expired"})
            return
        offset = int(parse_qs(urlsplit(self.path).query)["offset"][0])
        self.offsets.append(offset)
        dags = [{"dag_id": f"d{number}"} for number in range(offset, min(offset + 2, 5))]
        self._answer(200, {"dags": dags, "total_entries": 5})

    def _answer(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None: ...


def test_a_login_is_repeated_when_it_has_run_out_and_lists_are_read_to_their_end() -> None:
    with serving(ForgetfulAirflow) as url:
        dags = AirflowRest(url, "ann", "hush").dags("srm")
        assert [dag["dag_id"] for dag in dags] == ["d0", "d1", "d2", "d3", "d4"]
        assert ForgetfulAirflow.offsets == [0, 2, 4]
        assert len(ForgetfulAirflow.tokens) == 3
        # A token that was given cannot be made anew.
        with pytest.raises(AirflowError, match="requires authentication"):
            AirflowRest(url, token="of yesterday").dags("srm")


class Endless(BaseHTTPRequestHandler):
    """An answer that does not end: of ``piece`` again and again, at once or slowly."""

    piece: ClassVar[bytes]
    status: ClassVar[int] = 200
    over: ClassVar[threading.Event | None] = None

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        with contextlib.suppress(OSError):
            while self.over is None or not self.over.wait(0.05):
                self.wfile.write(self.piece)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.mark.parametrize("status", [200, 404])
def test_an_answer_without_an_end_is_given_up(status: int) -> None:
    """Each piece comes in time, or more of them than any answer has."""

    class Slow(Endless):
        piece = b" "
        over = threading.Event()

    class Fast(Endless):
        piece = bytes(1 << 20)

    Slow.status = Fast.status = status
    with (
        serving(Slow) as url,
        pytest.raises(AirflowError, match=r"did not respond: no answer within 0\.5 s; check SRM"),
    ):
        AirflowRest(url, timeout_seconds=0.5).variable("x")
    with serving(Fast) as url, pytest.raises(AirflowError, match=r"did not respond: its answer is larger than 64 MB"):
        AirflowRest(url, timeout_seconds=300).variable("x")


def test_json_that_python_cannot_hold_is_none() -> None:
    class Nested(NoAirflow):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"[" * 100_000)

    with serving(Nested) as url, pytest.raises(AirflowError, match=r"is not an Airflow: GET .* returned no JSON"):
        AirflowRest(url).variable("x")


class Redirecting(BaseHTTPRequestHandler):
    """A proxy that sends everyone to ``elsewhere``."""

    elsewhere: ClassVar[str]
    status: ClassVar[int]

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(self.status)
        self.send_header("Location", self.elsewhere + self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_PATCH = do_GET

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirection_is_not_followed_and_named(status: int) -> None:
    """A POST would become a GET, which starts nothing, and the token would go to another host."""
    reached: list[str] = []

    class Elsewhere(NoAirflow):
        def do_GET(self) -> None:
            reached.append(f"{self.command} {self.path}")
            super().do_GET()

        do_POST = do_PATCH = do_GET

    asked: list[Callable[[AirflowRest], object]] = [
        lambda airflow: airflow.variable("v"),
        lambda airflow: airflow.set_variable("v", "{}", "d"),
        lambda airflow: airflow.is_paused("d"),
        lambda airflow: airflow.set_paused("d", True),
        lambda airflow: airflow.start_run("d", "n"),
        lambda airflow: airflow.end_run("d", "r", "n"),
    ]
    with serving(Elsewhere) as other:
        Redirecting.elsewhere, Redirecting.status = other, status
        with serving(Redirecting) as url:
            for one in asked:
                for airflow in (AirflowRest(url, token="secret"), AirflowRest(url, "ann", "hush")):
                    with pytest.raises(AirflowError, match=rf" redirects \w+ /.* to {other}/.*; check SRM_AIRFLOW_URL"):
                        one(airflow)
    assert reached == []


class OneRun(BaseHTTPRequestHandler):
    """An Airflow that has every run already, with ``conf``; its first answer is lost if ``loses``."""

    conf: ClassVar[dict[str, object]]
    loses: ClassVar[bool]
    asked: ClassVar[list[tuple[str, str]]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(("POST", body["dag_run_id"]))
        if self.loses and len(self.asked) == 1:
            self._answer(503, {})
        else:
            self._answer(409, {"detail": "there is one"})

    def do_GET(self) -> None:
        run_id = unquote(self.path.rpartition("/")[2])
        self.asked.append(("GET", run_id))
        self._answer(200, {"dag_run_id": run_id, "conf": self.conf})

    def _answer(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.mark.parametrize("loses", [True, False])
def test_a_run_that_is_there_already_counts_only_if_it_is_the_one_that_was_asked_for(
    loses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow_rest, "_PAUSES_SECONDS", (0.0,))
    OneRun.loses = loses
    with serving(OneRun) as url:
        OneRun.conf, OneRun.asked = {"flow": "a->b"}, []
        run_id = AirflowRest(url).start_run("srm.failover", "n", conf={"flow": "a->b"})
        assert OneRun.asked == [("POST", run_id)] * (1 + loses) + [("GET", run_id)]

        OneRun.asked = []
        with pytest.raises(AirflowError, match=r"started no run of srm\.failover: it has another run .*; try again"):
            AirflowRest(url).start_run("srm.failover", "n", conf={"flow": "c->d"})


def test_an_answer_that_is_no_run_starts_none() -> None:
    class Other(ForgetfulAirflow):
        def do_POST(self) -> None:
            self._answer(200, {"dag_runs": []})

    with serving(Other) as url, pytest.raises(AirflowError, match="is not an Airflow: its response has other fields"):
        AirflowRest(url).start_run("d", "n")
