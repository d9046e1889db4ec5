from __future__ import annotations

from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from srm_common.rest.serving import request_rate
from srm_common.rest.serving.request_rate import BURST, STEADY, RequestRate


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def served(clock: Clock, address: str = "192.0.2.1") -> tuple[RequestRate, TestClient]:
    async def hello(_: Request) -> PlainTextResponse:
        return PlainTextResponse("hello")

    rate = RequestRate(Starlette(routes=[Route("/", hello)]), clock=clock)
    return rate, TestClient(rate, client=(address, 4711))


def statuses(client: TestClient, count: int, headers: Mapping[str, str] | None = None) -> list[int]:
    return [client.get("/", headers=headers).status_code for _ in range(count)]


def test_a_burst_is_served_and_then_as_many_a_second() -> None:
    clock = Clock()
    _, client = served(clock)
    assert statuses(client, BURST + 2) == [200] * BURST + [429] * 2
    clock.now += 1
    assert statuses(client, int(STEADY) + 1) == [200] * int(STEADY) + [429]
    clock.now += 3600
    assert statuses(client, BURST + 1) == [200] * BURST + [429]


def test_who_is_refused_is_told_when_to_go_on() -> None:
    _, client = served(Clock())
    statuses(client, BURST)
    refused = client.get("/")
    assert refused.headers["retry-after"] == "1"
    (error,) = refused.json()["errors"]
    assert (error["code"], error["message"]) == (
        "too_many_requests",
        "more than 50 requests a second; try again in 1 s",
    )


def test_behind_a_proxy_one_login_does_not_stop_another() -> None:
    rate, client = served(Clock())
    ann, bob = ({"authorization": f"Basic {name}"} for name in ("YW5u", "Ym9i"))
    assert statuses(client, BURST + 1, ann)[-1] == 429
    assert statuses(client, 1, bob) == [200]
    # The same login elsewhere is another caller.
    assert statuses(TestClient(rate, client=("192.0.2.2", 1)), 1, ann) == [200]
    assert statuses(client, 1, ann) == [429]


def test_a_host_with_many_addresses_of_ipv6_is_one_caller() -> None:
    rate, client = served(Clock(), "2001:db8::1")
    statuses(client, BURST)
    assert statuses(TestClient(rate, client=("2001:db8::2", 1)), 1) == [429]


def test_what_is_remembered_is_bounded() -> None:
    clock = Clock()
    rate, _ = served(clock)
    most = request_rate._MOST_CALLERS
    for number in range(most + 50):
        rate._wait_seconds(number.to_bytes(4, "big"))
    assert len(rate._left) == most
    assert (0).to_bytes(4, "big") not in rate._left
