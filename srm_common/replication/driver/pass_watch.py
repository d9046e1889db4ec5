"""Progress of an active pass, observed from outside: the target's committed end offsets.

Workers report when their slot is done, wherever they run. Until then, what they have committed is visible in the end
offsets of the remote topics, so no channel from the workers is needed. Transaction markers also take offsets; the
figure is therefore limited to the end of each range, and replaced by the exact one after the pass.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.runs.copying import CopyRange
from srm_common.domain.topic_partition import TopicPartition
from srm_common.errors import SrmError
from srm_common.kafka.client.links.link import ClusterLink

_LOG = logging.getLogger(__name__)


class PassWatch:
    """Calls ``report`` about once a second with the number of offsets of each range that are on the target, by upstream
    partition. A context manager around one pass; it queries from its own thread, over its own connections.
    """

    def __init__(
        self,
        target: ClusterSettings,
        ranges: Sequence[CopyRange],
        report: Callable[[Mapping[TopicPartition, int]], None],
        *,
        read_committed: bool = True,
        every_seconds: float = 1.0,
    ) -> None:
        self._target = target
        self._ranges = ranges
        self._report = report
        self._read_committed = read_committed
        self._every = every_seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="srm-progress", daemon=True)

    def __enter__(self) -> PassWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        places = {
            TopicPartition(copy_range.downstream_topic, copy_range.partition): copy_range for copy_range in self._ranges
        }
        try:
            with ClusterLink(self._target, part="progress") as link:
                before: dict[TopicPartition, int] = {}
                while True:
                    ends, _ = link.end_offsets(places, committed=self._read_committed, timeout_seconds=1.0)
                    done = {}
                    for place, end in ends.items():
                        one = places[place]
                        more = end - before.setdefault(place, end)
                        done[TopicPartition(one.upstream_topic, one.partition)] = min(max(more, 0), one.end - one.start)
                    self._report(done)
                    if self._over.wait(self._every):
                        return
        except SrmError as error:
            # The pass itself reports what is wrong with the target; without figures it continues all the same.
            _LOG.warning("no progress to show: %s", error)
