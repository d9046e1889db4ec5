"""What a link knows of its cluster: the brokers, and the leaders of the topics that it asks about."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from srm_common.domain.topic_partition import TopicPartition
from srm_common.kafka.client.connections.dialing import SILENT
from srm_common.kafka.client.connections.newest_epochs import SETTLED_SECONDS, NewestEpochs
from srm_common.kafka.client.connections.signal import Signal
from srm_common.kafka.client.library import ClusterMetadata, Errors, Future

#: After this long without an answer, and with no broker left to ask, the bootstrap servers are asked again (KIP-899).
_LOST_SECONDS = 10.0
#: How long brokers may take when many are asked, and how soon they may be asked again.
_AGREEING_SECONDS = 2.0
#: The most brokers that are asked for their agreement, picked at random: one that is not cut off is enough.
_MOST_ASKED = 8


class LinkMetadata(ClusterMetadata):  # type: ignore[misc]
    """Asks whichever broker answers first, where the library waits for a random one.

    Its requests never create topics. A leader is not replaced by one of an earlier epoch (KIP-320;
    ``Metadata.updateLatestMetadata``): a broker that is cut off from its controller goes on as if it led what others
    lead by now, and answers with the log as it was.
    """

    #: Those whose leaders are kept; the library takes out names that no topic can have.
    _topics: set[str]
    _refresh_future: Any

    def __init__(self, newest_epochs: NewestEpochs | None = None, **configs: Any) -> None:
        super().__init__(**configs)
        self.config["allow_auto_create_topics"] = False
        self._newest_epochs = newest_epochs or NewestEpochs()
        #: Partitions whose present leader no broker has named yet, and what is known of it, as the end of a sentence.
        self.behind: dict[TopicPartition, str] = {}
        self._agree_at = 0.0

    def forget(self) -> None:
        """Know the brokers only, as after the first request of a new connection."""
        for known in (self._topics, self._partitions, self._topic_ids, self._topic_names_by_id, self.behind):
            known.clear()
        self.unauthorized_topics.clear()

    def keep(self, topics: Iterable[str]) -> bool:
        """Ask for the leaders of these topics, too, from the next refresh on; returns whether any is new."""
        new = set(topics) - self._topics
        self._topics |= new
        return bool(new)

    def saw(self, place: TopicPartition, epoch: int, node: int | None = None) -> None:
        """A leader of this epoch was seen, which was ``node``: who led before does not any more."""
        known = self._partitions.get(place.topic, {}).get(place.partition)
        older = known is not None and 0 <= known.leader_epoch < epoch
        if older and known.leader_id == node:
            known.leader_epoch = epoch
        news = self._newest_epochs.saw(self._topic_ids.get(place.topic), place.partition, epoch)
        if news and older and known.leader_id not in (node, -1):
            self._leave_out(place, known, epoch)

    def update_metadata(self, metadata: Any) -> None:
        """As the library does, but for leaders of earlier epochs."""
        before = self._partitions
        super().update_metadata(metadata)
        self.behind.clear()
        self._learn(metadata)
        for topic, topic_id in self._topic_ids.items():
            for partition, described in self._partitions.get(topic, {}).items():
                newest = self._newest_epochs.of(topic_id, partition)
                if not 0 <= described.leader_epoch < newest:
                    continue
                known = before.get(topic, {}).get(partition)
                if known is not None and known.leader_epoch == newest:
                    self._partitions[topic][partition] = known
                elif described.leader_id >= 0:
                    self._leave_out(TopicPartition(topic, partition), described, newest)

    def _learn(self, metadata: Any) -> None:
        for topic in metadata.topics:
            for part in topic.partitions:
                self._newest_epochs.saw(topic.topic_id, part.partition_index, part.leader_epoch)

    def _leave_out(self, place: TopicPartition, described: Any, newest: int) -> None:
        self.behind[place] = (
            f"has no leader that can be relied on: brokers name {described.leader_id} with leader epoch "
            f"{described.leader_epoch}, but epoch {newest} was seen before; a broker that is cut off from its "
            f"controller answers so, and brokers that should know better do not respond"
        )
        described.leader_id = -1

    async def agree(self, *, all_brokers: bool = False) -> None:
        """Ask several brokers instead of any, and use the newest of what they say. Those that were silent before, or do
        not respond soon, are left out. Where ``all_brokers`` respond, and none names the newest epoch, that is given
        up."""
        self._agree_at = time.monotonic() + SETTLED_SECONDS
        nodes = self.brokers()
        asked = [node for node in nodes if (node.host, node.port) not in SILENT]
        # A refused login is for whoever uses the broker.
        asked = [node for node in asked if node.node_id not in self._manager.refused_logins]
        if not all_brokers and len(asked) > _MOST_ASKED:
            asked = random.sample(asked, _MOST_ASKED)
        answers = await self._answers(asked)
        for answer in answers:
            self._learn(answer)
        if len(answers) == len(nodes):
            self._give_up(answers)
        if answers:
            self._newest_epochs.asked(self._topics)
            self.update_metadata(min(answers, key=self._older_in))

    def agreed_since(self, moment: float) -> bool:
        """Whether several brokers were asked for the leaders of all these topics since a moment (monotonic seconds), by
        any link that shares the epochs."""
        return self._newest_epochs.asked_since(self._topics, moment)

    async def _answers(self, nodes: Iterable[Any]) -> list[Any]:
        until = time.monotonic() + _AGREEING_SECONDS
        signal = Signal(self._manager.loop)
        waiting = {node.node_id: (node.host, node.port) for node in nodes}
        answers = []

        async def ask(node_id: Any) -> None:
            try:
                connection = self._manager.get_connection(node_id)
                answer = await connection.send_request(self.metadata_request(), self._manager.patience_ms)
                if answer.brokers:  # one with ZooKeeper that has just started names none
                    answers.append(answer)
            except Errors.KafkaError:
                pass  # it is not needed
            finally:
                waiting.pop(node_id, None)
                signal.set()

        tasks = [self._manager.loop.call_soon(partial(ask, node_id)) for node_id in waiting]
        try:
            while waiting and (left := until - time.monotonic()) > 0:
                await signal.wait(left)
            for place in waiting.values():
                SILENT.note(place)
        finally:
            for task in tasks:
                self._manager.loop.cancel(task)
        return answers

    def _give_up(self, answers: Iterable[Any]) -> None:
        """All brokers have answered: epochs that none of them names are none of this cluster."""
        named: dict[tuple[Any, int], int] = {}
        for answer in answers:
            for topic in answer.topics:
                for part in topic.partitions:
                    key = (topic.topic_id, part.partition_index)
                    named[key] = max(named.get(key, -1), part.leader_epoch)
        for (topic_id, partition), epoch in named.items():
            self._newest_epochs.named(topic_id, partition, epoch)

    def _older_in(self, metadata: Any) -> tuple[int, int]:
        """How many leaders it names that are known to have been replaced, and how little else it knows."""
        older = known = 0
        for topic in metadata.topics:
            for part in topic.partitions:
                known += 1
                older += part.leader_epoch < self._newest_epochs.of(topic.topic_id, part.partition_index)
        return older, -known

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
            except Errors.MetadataEmptyBrokerList:
                # As REBOOTSTRAP_REQUIRED asks (KIP-1102); what knows of no brokers is none of the cluster either.
                await self._manager.search_servers(anew=True)
            else:
                self.update_metadata(answer)
                if self.behind and time.monotonic() >= self._agree_at:
                    await self.agree(all_brokers=True)
        except Exception as error:
            self.failed_update(error)
            raise
