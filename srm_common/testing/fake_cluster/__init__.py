"""A Kafka cluster inside the test's process."""

from srm_common.testing.fake_cluster.cluster import FakeCluster
from srm_common.testing.fake_cluster.records import Record
from srm_common.testing.fake_cluster.service import Clock

__all__ = ["Clock", "FakeCluster", "Record"]
