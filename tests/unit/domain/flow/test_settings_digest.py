from __future__ import annotations

from dataclasses import replace

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow.settings import AlarmNotifier
from tests.flow_settings import small_flow

FLOW = small_flow(ClusterSettings.plaintext("a", "one:9092"), ClusterSettings.plaintext("b", "two:9092"), "orders.*")


def test_it_tells_settings_apart_and_not_addresses() -> None:
    moved = replace(FLOW, source=ClusterSettings.plaintext("a", "three:9092"))
    assert moved.digest == FLOW.digest == replace(FLOW).digest
    others = [replace(FLOW, topics=("payments",)), replace(FLOW, fetch_bytes=1 << 20), replace(FLOW, tasks_max=3)]
    assert len({FLOW.digest, *(other.digest for other in others)}) == 4


def test_no_secret_is_a_part_of_it() -> None:
    def notifier(password: str) -> tuple[AlarmNotifier, ...]:
        return (AlarmNotifier("mail", "package.Mail", {"password": password}),)

    one, other = (replace(FLOW, alarm_notifiers=notifier(word)) for word in ("first", "second"))
    assert one.digest == other.digest != FLOW.digest
