"""Sends alarms through Airflow's notifiers, when they are raised and when they are resolved.

Any class works that accepts the keyword arguments of the file and can be called with a task's context, like those of
Airflow's providers (``airflow.sdk.BaseNotifier``). The context also has ``alarm``, so that templates can use ``{{
alarm.text }}``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

from srm_common.domain.flow import FlowSettings
from srm_common.domain.flow.settings import NOTIFIER_KEYS, AlarmNotifier
from srm_common.domain.health.health import Alarm
from srm_common.domain.health.judge import Verdict, judge, observe
from srm_common.domain.health.notified_alarms import AlarmMemory, NotifiedAlarms
from srm_common.domain.health.watched_flow import WATCHED
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.settings_files.explanations import MASK, is_secret
from srm_common.settings_files.user_classes import resolved

_LOG = logging.getLogger(__name__)
#: Keys of the flow's asset state.
MEMORY, ALARMS = "alarm_memory", "alarms"
#: A notifier that takes longer is left to itself: the flow's next run waits for this one.
PATIENCE_SECONDS = 30.0

Memory = TypeVar("Memory", bound=NotifiedAlarms)


def judged(flow: FlowSettings, report: RunReport, state: Any) -> tuple[AlarmMemory, Verdict]:
    """Flow health after the report, with the history of earlier runs from its asset state."""
    # The report has just been made, and its time has been compared with other clocks than this host's.
    memory = AlarmMemory.from_json(state.get(MEMORY)).after(report, report.reported_ms)
    # A pause is not reported, since a paused flow makes no reports.
    return memory, judge(observe(flow.name, memory.history, flow, None, report.reported_ms))


def send_alarms(flow: FlowSettings, report: RunReport, context: Mapping[str, Any], state: Any) -> None:
    """Judge the report; send each notifier of the flow what has changed, except what the watch sends. ``state`` is
    the flow's asset state.

    What a notifier could not send is logged, and sent after the next run; nothing else depends on it.
    """
    memory, (_, alarms) = judged(flow, report, state)
    for alarm in alarms:
        _LOG.warning("alarm %s (%s): %s", alarm.kind, alarm.severity, alarm.text)
    state.set(ALARMS, [_begun(alarm) for alarm in alarms])
    mine = [alarm for alarm in alarms if alarm.kind not in WATCHED]
    AlarmSender(context).tell(
        flow.alarm_notifiers,
        mine,
        memory,
        report.flow,
        report.reported_ms,
        # The history keeps what the run could not look at.
        informed=True,
        keep=lambda known: state.set(MEMORY, known.to_json()),
    )


class AlarmSender:
    """Sends through notifiers, in one task. One that hung is not called again: it would delay the others."""

    def __init__(self, context: Mapping[str, Any]) -> None:
        self._context = context
        self._hung: list[AlarmNotifier] = []

    def tell(
        self,
        notifiers: Sequence[AlarmNotifier],
        alarms: Sequence[Alarm],
        memory: Memory,
        flow: str,
        now_ms: int,
        *,
        informed: bool,
        keep: Callable[[Memory], None],
    ) -> None:
        """Send each notifier what is new to it, according to ``memory``, which is stored after everything that was
        sent, and at the end."""
        memory = memory.limited_to(alarm_notifier.name for alarm_notifier in notifiers).with_earlier(alarms)
        for notifier in notifiers:
            begun, over = memory.unsent(notifier.name, alarms, now_ms, informed=informed)
            news: list[tuple[dict[str, Any], Alarm | None]] = [(_begun(alarm), alarm) for alarm in begun]
            news += [(_over(kind, text, flow), None) for kind, text in over.items()]
            for told, alarm in news:
                if not self.sent(notifier, told):
                    break  # its server is away, and would keep the task waiting once more
                if alarm is None:
                    memory = memory.mark_resolved(notifier.name, told["kind"])
                else:
                    memory = memory.mark_notified(notifier.name, alarm, now_ms)
                keep(memory)
        keep(memory)

    def sent(self, notifier: AlarmNotifier, alarm: Mapping[str, Any]) -> bool:
        """Whether the notifier could send ``alarm``; a failure is logged."""
        fault = "it hung before" if notifier in self._hung else self._fault(notifier, alarm)
        if fault is not None:
            _LOG.error(
                "alarm.notifiers: '%s' could not send '%s': %s; see alarm.notifier.%s.*",
                *(notifier.name, alarm["text"], fault, notifier.name),
            )
        return fault is None

    def _fault(self, notifier: AlarmNotifier, alarm: Mapping[str, Any]) -> str | None:
        faults: list[str] = []

        def tell() -> None:
            try:
                # Notifiers put their own fields into the context.
                resolved(notifier.path)(**notifier.arguments)({**self._context, "alarm": dict(alarm)})
            except Exception as error:  # a third-party class may raise anything
                faults.append(f"{type(error).__name__}: {error}")

        thread = threading.Thread(target=tell, name=f"notifier-{notifier.name}", daemon=True)
        thread.start()
        thread.join(PATIENCE_SECONDS)
        if thread.is_alive():
            self._hung.append(notifier)
            return f"it has taken more than {PATIENCE_SECONDS:g} s"
        return _without_secrets(faults[0], notifier) if faults else None


def _without_secrets(text: str, notifier: AlarmNotifier) -> str:
    """What a third-party class says, without what the file masks of the notifier's keys: libraries repeat the
    address of a request, or what comes behind its host."""
    for secret in sorted(_secrets(notifier), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _secrets(notifier: AlarmNotifier) -> Iterator[str]:
    for key, value in notifier.arguments.items():
        if is_secret(f"{NOTIFIER_KEYS}{notifier.name}.{key}"):
            for text in _texts(value):
                yield text
                try:
                    address = urlsplit(text)
                except ValueError:
                    continue  # it is no address
                yield from (part for part in (address.path, address.query, address.password) if part and part != "/")


def _texts(value: Any) -> Iterator[str]:
    """All that a value, which may come from JSON, consists of; empty ones are none."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, Sequence) and not isinstance(value, str):
        for one in value:
            yield from _texts(one)
    elif value not in (None, "", True, False):
        yield str(value)


def _begun(alarm: Alarm) -> dict[str, Any]:
    """What templates can name, by docs/operations.md."""
    help_ = alarm.help
    return {
        "kind": alarm.kind.value,
        "severity": alarm.severity.value,
        "flow": alarm.flow,
        "text": alarm.text,
        "since_ms": alarm.since_ms,
        "over": False,
        "help": help_.text if help_ is not None else "",
        "command": (help_.command if help_ is not None else None) or "",
    }


def _over(kind: str, text: str, flow: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "severity": "info",
        "flow": flow,
        "text": f"over: {text}",
        "since_ms": None,
        "over": True,
        "help": "",
        "command": "",
    }
