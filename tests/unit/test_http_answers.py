"""By which proxy a server is asked."""

from __future__ import annotations

import pytest

from srm_common.http_answers import proxies_of


@pytest.fixture(autouse=True)
def proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://proxy:3128")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.1.1:8080", "[::1]:8080", "localhost:8080"])
def test_no_proxy_is_asked_for_what_is_on_this_machine(host: str) -> None:
    assert vars(proxies_of(f"http://{host}/api"))["proxies"] == {}


@pytest.mark.parametrize("host", ["airflow:8080", "10.0.0.1", "localhost.example"])
def test_other_servers_are_asked_by_the_proxy_of_the_environment(host: str) -> None:
    assert vars(proxies_of(f"http://{host}/api"))["proxies"]["http"] == "http://proxy:3128"
