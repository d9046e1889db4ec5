"""Real Kafka and the real MirrorMaker 2 on this machine, and a fake cluster and a schema registry in the test's
process. Users can test their pipelines with them, too."""

from srm_common.testing.brokers.jvm import BrokerJvm
from srm_common.testing.fake_cluster import FakeCluster
from srm_common.testing.local_kafka import LocalKafka
from srm_common.testing.local_mirror_maker import LocalMirrorMaker
from srm_common.testing.local_registry import LocalRegistry
from srm_common.testing.ports import ReservedPort

__all__ = ["BrokerJvm", "FakeCluster", "LocalKafka", "LocalMirrorMaker", "LocalRegistry", "ReservedPort"]
