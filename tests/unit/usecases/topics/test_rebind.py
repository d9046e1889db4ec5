from __future__ import annotations

from pathlib import Path

import pytest

from srm_common.domain.topics.topic_records import ClusterBinding
from srm_common.errors import ConfigError
from srm_common.kafka.state.topic_registry import TopicRegistry
from srm_common.settings_files.configuration import load_configuration
from srm_common.usecases.topics.rebind import rebind
from tests.unit.usecases.fakes import Sides


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_target_that_cannot_be_used_keeps_no_other_from_being_done(
    sides: Sides, tmp_path: Path, dry_run: bool
) -> None:
    path = tmp_path / "srm.properties"
    path.write_text(
        f"clusters = a, aa, b\na.bootstrap.servers = {sides.source.bootstrap_servers}\naa.connection = kafka_aa\n"
        f"b.bootstrap.servers = {sides.target.bootstrap_servers}\na->b.enabled = true\na->aa.enabled = true\n"
    )
    configuration = load_configuration(path, lambda connection: None)
    flow = configuration.flow("a->b")
    with TopicRegistry(flow.target) as registry:
        registry.write((), [ClusterBinding("a", "another-cluster", 1)])
    with pytest.raises(ConfigError) as caught:
        rebind(flow.graph, "a", dry_run=dry_run)
    assert str(caught.value).startswith("'aa' was left as it is: ")
    assert str(caught.value).endswith("; 'b' has the new binding") != dry_run
    with TopicRegistry(flow.target) as registry:
        bound = registry.read().bindings["a"].cluster_id
    assert bound == ("another-cluster" if dry_run else sides.source.cluster_id)
