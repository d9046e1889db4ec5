"""A Kafka cluster inside the test's process."""

from srm_common.testing.fake_cluster.cluster import Clock, FakeCluster
from srm_common.testing.fake_cluster.records import Record

__all__ = ["Clock", "FakeCluster", "Record"]
