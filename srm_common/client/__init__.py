"""For programs that use what flows have copied: which clusters are upstream, which topics are copies of what, and where
a consumer group resumes.

It offers what Kafka's ``RemoteClusterUtils`` and ``MirrorClient`` offer, under any policy; see docs/client.md.
"""

from __future__ import annotations

from srm_common.client.replication_client import ReplicationClient, TranslatedOffset
from srm_common.domain.topic_partition import TopicPartition
from srm_common.domain.topics.remote_names import SourceTopic

__all__ = ["Partition", "ReplicationClient", "SourceTopic", "TopicPartition", "TranslatedOffset"]

#: The name that programs have used so far.
Partition = TopicPartition
