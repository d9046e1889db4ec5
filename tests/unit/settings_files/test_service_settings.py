from __future__ import annotations

from pathlib import Path

import pytest

from srm_common.errors import ConfigError
from srm_common.settings_files.configuration import load_configuration
from srm_common.settings_files.service_settings import Login, ServiceSettings, service_settings

CLUSTERS = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"


def read(tmp_path: Path, text: str = "") -> ServiceSettings:
    file = tmp_path / "srm.properties"
    file.write_text(CLUSTERS + text)
    return service_settings(load_configuration(file))


def test_without_keys_nothing_is_open_and_nobody_is_asked(tmp_path: Path) -> None:
    assert read(tmp_path) == ServiceSettings()


def test_an_empty_value_overrides_too(tmp_path: Path) -> None:
    """It is no text, and as a list it matches nothing."""
    settings = read(tmp_path, "service.name =\nmetrics.prometheus.token =\nservice.peers.hosts =\n")
    assert (settings.name, settings.metrics_token, settings.peers_hosts) == (None, None, ())
    assert not settings.may_ask("b")


def test_every_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEER", "s3cret")
    settings = read(
        tmp_path,
        """
metrics.prometheus.open = true
metrics.prometheus.token = ${env:PEER}
service.advertised.url = https://west.example:6670/srm/
service.advertise.interval.seconds = 5
service.gateway.enabled = true
service.peers.timeout.seconds = 0.5
service.peers.hosts = .*\\\\.example, localhost
service.peers.ca.location = /etc/ca.pem
service.peer.East.example.user = reader
service.peer.East.example.password = ${env:PEER}
service.peer.10.0.0.7.token = abc
""",
    )
    assert settings.metrics_open
    assert settings.metrics_token == "s3cret"
    assert (settings.name, settings.advertised_url) == ("west.example", "https://west.example:6670/srm")
    assert (settings.advertise_interval_seconds, settings.gateway, settings.peers_timeout_seconds) == (5, True, 0.5)
    assert settings.may_ask("north.example")
    assert not settings.may_ask("example.org")
    assert settings.peers_ca_location == "/etc/ca.pem"
    assert settings.logins == {"east.example": Login("reader", "s3cret"), "10.0.0.7": Login(token="abc")}
    assert "s3cret" not in repr(settings)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("service.advertised.url = west:6670", "service.advertised.url must be an address such as https://"),
        ("service.advertised.url = http://west:99999", "service.advertised.url must be an address such as https://"),
        ("service.advertised.url = http://[west", "service.advertised.url must be an address such as https://"),
        ("service.advertised.url = http://me:pw@west", "without a login"),
        ("metrics.prometheus.open =", "metrics.prometheus.open must be true or false, but is ''"),
        ("service.advertise.interval.seconds =", "seconds must be a number of seconds, but is ''"),
        ("metrics.prometheus.open = yes", "metrics.prometheus.open must be true or false, but is 'yes'"),
        ("service.peer.west.user = me", "service.peer.west.user and service.peer.west.password, or"),
        ("service.peer.west.login = me", "is not service.peer.<host>.user, .password or .token"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_key(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, line)
    assert message in str(caught.value)
    assert "pw" not in str(caught.value)
