"""Alarms told by a notifier of one of Airflow's providers, to a mail server that listens; and by one that cannot."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from srm_common.airflow_bridge import alarms
from srm_common.airflow_bridge.alarms import send_alarms
from srm_common.domain.flow import FlowSettings
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.domain.runs.run_record import PartitionRecord, RunRecord, RunState
from srm_common.settings_files.configuration import load_configuration
from srm_common.testing import ReservedPort
from tests.airflow.mailbox import Mailbox

pytestmark = pytest.mark.airflow

CONFIGURATION = """\
clusters = a, b
a.bootstrap.servers = a:1
b.bootstrap.servers = b:1
a->b.enabled = true
a->b.lag.objective.records = 10
alarm.notifiers = mail, broken
alarm.notifier.mail.class = airflow.providers.smtp.notifications.smtp.SmtpNotifier
alarm.notifier.mail.smtp_conn_id = alarms
alarm.notifier.mail.to = ["ops@example.com", "night@example.com"]
alarm.notifier.mail.subject = [{{ alarm.severity }}] {{ alarm.text }} ({{ run_id }})
alarm.notifier.mail.html_content = <p>{{ alarm.help | e }} <code>{{ alarm.command | e }}</code></p>
alarm.notifier.broken.class = nowhere.Pager
"""


class State(dict[str, Any]):
    """What a task has of an asset's state: ``get`` and ``set``."""

    set = dict.__setitem__


@pytest.fixture
def flow(tmp_path: Path) -> FlowSettings:
    path = tmp_path / "srm.properties"
    path.write_text(CONFIGURATION)
    return load_configuration(path).flow("a->b")


@pytest.fixture
def errors() -> Iterator[list[str]]:
    """What is logged; Airflow drops the root handlers when a notifier first asks for a connection."""
    found: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(alarms.__name__)
    logger.addHandler(handler)
    yield found
    logger.removeHandler(handler)


def report(run_id: str, lag: int) -> RunReport:
    now = 1_700_000_000_000
    partition = PartitionRecord("<b>t", "a.<b>t", 0, position=0, end=lag)
    run = RunRecord("a->b", run_id, now - 1_000, now, 1, RunState.DONE, partitions=(partition,))
    return RunReport("a->b", run_id, now, run)


def test_mail_is_sent_when_an_alarm_begins_and_when_it_is_over(
    flow: FlowSettings, monkeypatch: pytest.MonkeyPatch, errors: list[str]
) -> None:
    state = State()
    with Mailbox() as mailbox:
        monkeypatch.setenv("AIRFLOW_CONN_ALARMS", mailbox.connection)
        for number, lag in enumerate((0, 11, 12, 3, 0)):
            send_alarms(flow, report(f"r{number}", lag), {"run_id": f"r{number}"}, state)
            assert [alarm["kind"] for alarm in state["alarms"]] == (["lag_objective"] if lag > 10 else [])
    assert mailbox.subjects == [
        "[warning] a->b is 11 records behind; its objective is 10 (r1)",
        "[info] over: a->b is 11 records behind; its objective is 10 (r3)",
    ]
    assert mailbox.mails[0]["To"] == "ops@example.com, night@example.com"
    body = mailbox.mails[0].get_body()
    assert body is not None
    assert "srm-control status --flow &#39;a-&gt;b&#39; --watch" in body.get_content()
    # At both runs with the alarm, since it was never told; of its end nobody has to hear who did not hear of it.
    assert [text.partition(":")[0] for text in errors] == ["alarm.notifiers"] * 2
    assert "'broken' could not send 'a->b is 11 records behind; its objective is 10'" in errors[0]
    assert "ModuleNotFoundError" in errors[0]


def test_a_mail_server_that_is_away_is_tried_again_after_the_next_run(
    flow: FlowSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = State()
    with Mailbox() as mailbox:
        connection = mailbox.connection
    monkeypatch.setenv("AIRFLOW_CONN_ALARMS", connection)
    send_alarms(flow, report("r0", 11), {"run_id": "r0"}, state)
    assert mailbox.subjects == []
    with Mailbox() as mailbox:
        monkeypatch.setenv("AIRFLOW_CONN_ALARMS", mailbox.connection)
        send_alarms(flow, report("r1", 12), {"run_id": "r1"}, state)
    assert mailbox.subjects == ["[warning] a->b is 12 records behind; its objective is 10 (r1)"]


class Hanging:
    """A notifier that never comes back, for the file to name."""

    over = threading.Event()

    def __call__(self, context: Any) -> None:
        self.over.wait(60)


def test_a_notifier_that_hangs_does_not_hold_the_flow_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, errors: list[str]
) -> None:
    path = tmp_path / "srm.properties"
    named = f"alarm.notifiers = slow\nalarm.notifier.slow.class = {__name__}.Hanging\n"
    path.write_text("".join(CONFIGURATION.partition("alarm.notifiers")[0]) + named)
    monkeypatch.setattr(alarms, "PATIENCE_SECONDS", 0.2)
    send_alarms(load_configuration(path).flow("a->b"), report("r0", 11), {}, State())
    Hanging.over.set()
    assert "'slow' could not send" in errors[0]
    assert "it has taken more than 0.2 s" in errors[0]


class Chat:
    """A notifier that posts to a webhook, for the file to name."""

    def __init__(self, **settings: Any) -> None:
        self._settings = settings

    def __call__(self, context: Any) -> None:
        said = str(self._settings)
        try:
            requests.post(self._settings["webhook_url"], timeout=60)
        except requests.ConnectionError as error:
            raise RuntimeError(f"with {said}: {error}") from error


def test_a_notifier_that_fails_with_its_secrets_in_its_words_is_logged_without_them(
    tmp_path: Path, errors: list[str]
) -> None:
    path, nobody = tmp_path / "srm.properties", ReservedPort()
    chat = {
        "class": f"{__name__}.Chat",
        "webhook_url": f"http://{nobody.address}/hooks/c4n4ry-1?sign=c4n4ry-2",
        "token": '["c4n4ry-3", {"of": "c4n4ry-4", "no": null}]',
        "headers_auth": "5150515",
        "key": "http://[c4n4ry-5",
        "channel": "#ops",
    }
    named = "alarm.notifiers = chat\n" + "".join(
        f"alarm.notifier.chat.{key} = {value}\n" for key, value in chat.items()
    )
    path.write_text("".join(CONFIGURATION.partition("alarm.notifiers")[0]) + named)
    send_alarms(load_configuration(path).flow("a->b"), report("r0", 11), {}, State())
    nobody.release()
    assert "'chat' could not send" in errors[0]
    assert "#ops" in errors[0]
    assert "url: ***" in errors[0], "what the library says of it"
    assert "c4n4ry" not in errors[0]
    assert "5150515" not in errors[0]
