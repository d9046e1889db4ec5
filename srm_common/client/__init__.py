"""For programs that use what flows have copied: which clusters lie upstream, which topics are copies of what, and where
a consumer group goes on reading.

The questions are those of Kafka's ``RemoteClusterUtils`` and ``MirrorClient``, answered under any policy; see
docs/client.md.
"""

from __future__ import annotations

from srm_common.client.replication_client import ReplicationClient
from srm_common.client.translated_offset import Partition, TranslatedOffset
from srm_common.domain.topics.remote_names import SourceTopic

__all__ = ["Partition", "ReplicationClient", "SourceTopic", "TranslatedOffset"]
