from __future__ import annotations

from pathlib import Path

import pytest

from srm_common.domain.settings.table import KEYS
from srm_common.settings_files.configuration import load_configuration
from srm_common.settings_files.connections.client_keys import CONNECTION_KEYS, NO_EFFECT
from srm_common.settings_files.reference import SAMPLE, configuration_reference

#: Read for the sake of existing files; the page names what to write instead.
UNDOCUMENTED = {
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
    "ssl.keystore.password",
    "ssl.truststore.password",
} | NO_EFFECT

ROOT = Path(__file__).parents[3]


def test_the_page_is_current() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page == configuration_reference(), (
        "run: python -m srm_common.settings_files.reference > docs/configuration.md"
    )


def test_every_key_is_on_the_page() -> None:
    page = configuration_reference()
    assert [key.name for key in KEYS if f"`{key.name}`" not in page] == []
    assert [key for key in CONNECTION_KEYS if key not in page and key not in UNDOCUMENTED] == []


def test_the_first_file_loads(tmp_path: Path) -> None:
    path = tmp_path / "srm.properties"
    path.write_text(SAMPLE)
    configuration = load_configuration(path)
    assert configuration.flow("east->west").topics == ("orders.*", "payments")


def test_the_example_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUD_KAFKA_PASSWORD", "hush")
    configuration = load_configuration(ROOT / "docs" / "examples" / "srm.properties")
    assert not configuration.faults
    assert [str(flow.name) for flow in configuration.enabled_flows] == ["east->west", "west->east", "east->cloud"]
    cloud = configuration.flow("east->cloud")
    assert cloud.topics == (r"clicks\.eu\..*",)
    assert cloud.target.confluent["sasl.password"] == "hush"
    assert not cloud.exactly_once
    assert configuration.flow("east->west").exactly_once
