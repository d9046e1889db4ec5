from __future__ import annotations

from pathlib import Path

import pytest

from srm_common.domain.flow.start_position import parse_topic_starts
from srm_common.errors import ConfigError
from srm_common.settings_files.configuration import load_configuration

CLUSTERS = "clusters = a, b\na.bootstrap.servers = h:1\nb.bootstrap.servers = h:2\na->b.enabled = true\n"


def written(tmp_path: Path, line: str) -> Path:
    path = tmp_path / "srm.properties"
    path.write_text(CLUSTERS + line + "\n")
    return path


@pytest.mark.parametrize("prefix", ["", "b.", "a->b."])
def test_the_rules_of_a_flow(tmp_path: Path, prefix: str) -> None:
    rules = r"orders\\..*=latest, audit=offsets:0=100;1=250, pay=timestamp:2026-01-01T00:00:00Z"
    flow = load_configuration(written(tmp_path, f"{prefix}start.positions = {rules}")).flow("a->b")
    assert flow.start_positions == parse_topic_starts(rules.replace("\\\\", "\\"))
    assert len(flow.start_positions) == 3


def test_a_bad_rule_stops_the_flow_with_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_configuration(written(tmp_path, "a->b.start.positions = orders=yesterday")).flow("a->b")
    assert str(caught.value) == (
        f"{tmp_path}/srm.properties:5: a->b.start.positions cannot be used: 'yesterday' is not a start position; use "
        "earliest, latest, timestamp:<milliseconds since 1970>, timestamp:<ISO 8601 time>, "
        "offsets:<partition>=<offset>;... or opposite"
    )
