"""Nodes that are cut off from the controller and from the other nodes, while clients still reach them.

Such a node goes on as if nothing had happened: it names the leaders that it knew, itself among them, and answers what
is read from it with its logs as they were. Nothing is replicated from it any more, so it carries no request out that
would change anything. Meanwhile, the others elect new leaders for what it led.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from srm_common.testing.fake_cluster.groups import Groups
from srm_common.testing.fake_cluster.messages import Call
from srm_common.testing.fake_cluster.record_requests import RecordRequests
from srm_common.testing.fake_cluster.service import Handler
from srm_common.testing.fake_cluster.topic_requests import TopicRequests
from srm_common.testing.fake_cluster.topics import Topics
from srm_common.testing.fake_cluster.transactions import Transactions

_REQUEST_TIMED_OUT, _COORDINATOR_NOT_AVAILABLE = 7, 15
#: What it answers by what it knew.
_BY_ITS_VIEW = (
    "Metadata", "DescribeCluster", "DescribeTopicPartitions", "FindCoordinator",
    "Fetch", "ListOffsets", "OffsetForLeaderEpoch",
)  # fmt: skip
#: What needs neither another node nor the controller; what it then has is the same as before, or nearly.
_BY_ITSELF = ("ApiVersions", "DescribeConfigs", "ListTransactions", "DescribeTransactions", "ListGroups")
#: What waits for replicas, or for the controller; all else is for coordinators.
_TIMES_OUT = (
    "Produce", "DeleteRecords", "CreateTopics", "DeleteTopics", "CreatePartitions", "IncrementalAlterConfigs",
    "CreateAcls", "DeleteAcls",
)  # fmt: skip


class Isolation:
    """The isolated nodes of one cluster.

    Args:
        handlers: of all requests; those of isolated nodes come here from now on.
    """

    def __init__(
        self,
        topics: Topics,
        transactions: Transactions,
        handlers: dict[str, Handler],
        lock: threading.RLock,
        now_ms: Callable[[], int],
        changed: Callable[[], None],
    ) -> None:
        self._topics, self._transactions, self._lock = topics, transactions, lock
        self._now_ms, self._changed = now_ms, changed
        #: Node -> what answers by its view.
        self._views: dict[int, dict[str, Handler]] = {}
        for api, handle in handlers.items():
            handlers[api] = partial(self._handle, api, handle)

    def begin(self, node: int) -> None:
        """Cut a node off."""
        with self._lock:
            self._begin(node)

    def end(self, node: int) -> None:
        """It follows the new leaders, with their logs."""
        with self._lock:
            del self._views[node]
            self._topics.isolated.discard(node)
            self._topics.node_came(node)
            self._changed()

    def __contains__(self, node: int) -> bool:
        return node in self._views

    def _begin(self, node: int) -> None:
        seen = Topics(self._topics.nodes.values(), self._topics.cluster_id, self._topics.static, lambda: None)
        seen.topics = copy.deepcopy(self._topics.topics)
        rooms = (
            TopicRequests(seen, self._now_ms),
            Groups(seen, self._changed),
            RecordRequests(seen, self._transactions, self._now_ms, self._changed),
        )
        handlers = {api: handle for room in rooms for api, handle in room.handlers().items()}
        self._views[node] = {api: handlers[api] for api in _BY_ITS_VIEW}
        self._topics.isolated.add(node)
        self._topics.node_left(node)

    def _handle(self, api: str, handle: Handler, call: Call) -> Any:
        view = self._views.get(call.node)
        if view is None or api in _BY_ITSELF:
            return handle(call)
        if api in view:
            return view[api](call)
        code = _REQUEST_TIMED_OUT if api in _TIMES_OUT else _COORDINATOR_NOT_AVAILABLE
        call.refusal = lambda api, name: code
        return handle(call)
