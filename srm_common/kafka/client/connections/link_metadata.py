"""What a link knows of its cluster: the brokers, and the leaders of the topics that it asks about."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from srm_common.kafka.client.library import ClusterMetadata, Errors, Future

#: After this long without an answer, and with no broker left to ask, the bootstrap servers are asked again (KIP-899).
_LOST_SECONDS = 10.0


class LinkMetadata(ClusterMetadata):  # type: ignore[misc]
    """Asks whichever broker answers first, where the library waits for a random one.

    Its requests never create topics.
    """

    #: Those whose leaders are kept; the library takes out names that no topic can have.
    _topics: set[str]
    _refresh_future: Any

    def __init__(self, **configs: Any) -> None:
        super().__init__(**configs)
        self.config["allow_auto_create_topics"] = False

    def forget(self) -> None:
        """Know the brokers only, as after the first request of a new connection."""
        for known in (self._topics, self._partitions, self._topic_ids, self._topic_names_by_id):
            known.clear()
        self.unauthorized_topics.clear()

    def keep(self, topics: Iterable[str]) -> bool:
        """Ask for the leaders of these topics, too, from the next refresh on; returns whether any is new."""
        new = set(topics) - self._topics
        self._topics |= new
        return bool(new)

    async def refresh_anew(self) -> None:
        """Refresh by a new request. The library joins one that is under way, which may lack topics that were added
        since, so that they would seem not to exist.

        Raises:
            KafkaError: no broker answered.
        """
        if self.metadata_refresh_in_progress:
            with suppress(Errors.KafkaError):  # whoever began it is told
                await self._refresh_future
        await self.refresh_metadata()

    async def refresh_metadata(self, node_id: Any = None) -> None:
        """As the library does; where the task that asks is cancelled, those that have joined it are told."""
        if self.metadata_refresh_in_progress:
            await self._refresh_future
            return
        self._refresh_future = refresh = Future()
        try:
            await self._do_refresh_metadata(node_id)
        except BaseException as error:
            refresh.failure(error if isinstance(error, Exception) else Errors.Cancelled("the refresh was cancelled"))
            raise
        refresh.success(None)

    async def _refresh_loop(self) -> None:
        """Refresh when it is time or wanted. The library's own loop ends at the first failure of a refresh that
        another task had begun."""
        while not self.closed:
            try:
                if self.metadata_refresh_in_progress:
                    await self._refresh_future
                elif self._manager.bootstrapped and self.ttl() == 0:
                    await self.refresh_metadata()
                else:
                    await self._wakeup(max(self.ttl() / 1000, 0.05))
            except Errors.KafkaError:
                # Passed to the waiting callers; ttl() says when the next attempt is due.
                continue

    async def _do_refresh_metadata(self, node_id: Any) -> None:
        try:
            try:
                answer = await self._manager.ask_any(self.metadata_request)
            except Errors.NodeNotReadyError:
                if time.monotonic() * 1000 - self._last_successful_refresh_ms < _LOST_SECONDS * 1000:
                    raise
                await self._manager.search_servers()
            else:
                self.update_metadata(answer)
        except Exception as error:
            self.failed_update(error)
            raise
