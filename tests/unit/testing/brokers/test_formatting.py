"""Where a new node looks for the feature levels of its cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from srm_common.testing.brokers.formatting import bootstrap_checkpoint, random_id


@pytest.mark.parametrize("version", ["3.3.2", "3.9.1", "4.3.1", "4.3"])
def test_before_4_4_it_is_a_file_of_its_own(version: str) -> None:
    assert bootstrap_checkpoint(version) == Path("bootstrap.checkpoint")


@pytest.mark.parametrize("version", ["4.4.0", "4.4", "4.10.0", "5.0.0"])
def test_since_4_4_it_is_a_snapshot_of_the_metadata_log(version: str) -> None:
    assert bootstrap_checkpoint(version).parent == Path("__cluster_metadata-0")


def test_ids_are_no_options() -> None:
    assert not [one for _ in range(2000) if (one := random_id()).startswith("-") or len(one) != 22]
