"""A Kafka cluster inside the test's process."""

from srm_common.testing.fake_cluster.clock import Clock
from srm_common.testing.fake_cluster.cluster import FakeCluster
from srm_common.testing.fake_cluster.records import Record

__all__ = ["Clock", "FakeCluster", "Record"]
