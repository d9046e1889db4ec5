"""Real Kafka and the real MirrorMaker 2 on this machine, and a fake cluster in the process; also for users' tests."""

from srm_common.testing.fake_cluster import FakeCluster
from srm_common.testing.local_kafka import LocalKafka
from srm_common.testing.local_mirror_maker import LocalMirrorMaker
from srm_common.testing.ports import ReservedPort

__all__ = ["FakeCluster", "LocalKafka", "LocalMirrorMaker", "ReservedPort"]
