"""The read side of the registry, from which the broker answers requests about the cluster.

Handlers use only this cache to find the live brokers, the leaders and the controller. It follows
the store: on a lone broker what that commits, in a cluster what the controller's UpdateMetadata requests tell. Used on
the event loop's thread only.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from broker.config.listeners import Endpoint
from broker.metadata.model import NO_LEADER, BrokerRegistration, ClusterState, PartitionState, TopicState
from broker.metadata.operations import Operation

IsOffline = Callable[[int, str, int], bool]
"""Returns whether a broker's replica of a topic's partition is in a failed log directory."""
LISTED_S = 2.0
"""The time for which a broker that has ended is still listed: until clients have moved its partitions."""


def none_offline(broker_id: int, topic: str, index: int) -> bool:
    """Return False: no log directory has failed."""
    return False


class MetadataCache:
    """The cluster's metadata, as handlers read it.

    Args:
        image: the initial state.
        is_offline: tells which replicas cannot be used although their broker is alive.
        now: the clock, in seconds, for `listed_brokers`; without one no broker is listed after its end.

    Attributes:
        doubted: returns the leaders that may be dead, although the controller has not noticed yet. Metadata waits a
            moment for the elections, and then says that their partitions have no leader. So clients ask again soon. If
            metadata named the old leader, librdkafka would ask again only after one or two seconds.
    """

    def __init__(
        self, image: ClusterState, is_offline: IsOffline = none_offline, now: Callable[[], float] | None = None
    ) -> None:
        self._image = image
        self._is_offline = is_offline
        self._now = now
        self._ended: dict[int, tuple[BrokerRegistration, float]] = {}
        """Brokers that were alive until lately, and when they ended."""
        self._changed = asyncio.Event()
        self.doubted: Callable[[], Collection[int]] = tuple
        self._names: dict[uuid.UUID, str] | None = None
        self._alive: list[BrokerRegistration] | None = None
        self._has_brokers = asyncio.Event()
        if image.brokers:
            self._has_brokers.set()

    def update(self, image: ClusterState, operations: Sequence[Operation] = ()) -> None:
        """Replace the state after a change; `operations` led to it."""
        if image.topics is not self._image.topics:
            self._names = None
        if image.brokers is not self._image.brokers:
            self._alive = None
            if self._now is not None:
                self._note_ended(image, self._now())
        self._image = image
        if image.brokers:
            self._has_brokers.set()
        self._changed.set()

    def _note_ended(self, image: ClusterState, now: float) -> None:
        ended = {each: (broker, now) for each, broker in self._image.brokers.items() if each not in image.brokers}
        if ended or self._ended:
            listed = {each: entry for each, entry in self._ended.items() if now < entry[1] + LISTED_S}
            self._ended = {each: entry for each, entry in (listed | ended).items() if each not in image.brokers}

    async def changes(self, seconds: float) -> None:
        """Return at the next change, or after `seconds`."""
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    @property
    def is_known(self) -> bool:
        """Return whether the controller has told this broker of its cluster. On a lone broker that is always so."""
        return self._has_brokers.is_set()

    async def become_known(self) -> None:
        """Return when `is_known` is true."""
        await self._has_brokers.wait()

    @property
    def image(self) -> ClusterState:
        """The current state of the cluster."""
        return self._image

    @property
    def cluster_id(self) -> str:
        return self._image.cluster_id

    @property
    def controller_id(self) -> int:
        """The controller's id, or NO_CONTROLLER."""
        return self._image.controller_id

    # -- brokers

    def alive_brokers(self) -> list[BrokerRegistration]:
        """Return the live brokers in the order of their ids. Do not change the list."""
        if self._alive is None:
            self._alive = [self._image.brokers[broker] for broker in sorted(self._image.brokers)]
        return self._alive

    def listed_brokers(self) -> list[BrokerRegistration]:
        """Return the live brokers, and those that have ended within `LISTED_S`, in the order of their ids.

        If a response names a new leader and does not list the former one any more, librdkafka drops the former broker
        before it has moved the partition, and asks again only after a second.
        """
        ended = self._ended_lately()
        if not ended:
            return self.alive_brokers()
        return sorted([*self.alive_brokers(), *ended], key=lambda broker: broker.broker_id)

    def _ended_lately(self) -> list[BrokerRegistration]:
        if not self._ended or self._now is None:
            return []
        now = self._now()
        return [broker for broker, since in self._ended.values() if now < since + LISTED_S]

    def alive_ids(self) -> tuple[int, ...]:
        """Return the ids of the live brokers in ascending order."""
        return tuple(broker.broker_id for broker in self.alive_brokers())

    def endpoint(self, broker_id: int, listener: str) -> Endpoint | None:
        """Return the endpoint of a live broker's listener by name, or None."""
        broker = self._image.brokers.get(broker_id)
        return None if broker is None else broker.endpoint(listener)

    def doubts(self, broker_id: int) -> bool:
        """Return whether a leader may be dead; see `doubted`."""
        return broker_id in self.doubted()

    def lost(self) -> set[int]:
        """Return the brokers whose partitions should get other leaders soon: doubted ones, and those that have ended.

        A new controller tells of the brokers that are alive before it has elected leaders.
        """
        return {*self.doubted(), *(broker.broker_id for broker in self._ended_lately())}

    # -- topics

    def topic(self, name: str) -> TopicState | None:
        return self._image.topics.get(name)

    def topic_config(self, name: str) -> Mapping[str, str]:
        """Return the topic's overrides; empty if there is no such topic."""
        found = self._image.topics.get(name)
        return {} if found is None else found.config

    def topic_names(self) -> list[str]:
        """Return the names of all topics, sorted."""
        return sorted(self._image.topics)

    def names_by_id(self) -> dict[uuid.UUID, str]:
        """Return the topic names by topic id."""
        if self._names is None:
            self._names = {topic.topic_id: name for name, topic in self._image.topics.items() if topic.topic_id.int}
        return self._names

    # -- partitions

    def has(self, topic: str, index: int) -> bool:
        """Return whether there is such a partition."""
        return self._image.partition(topic, index) is not None

    def leader(self, topic: str, index: int) -> int:
        """Return the leader to report to clients; NO_LEADER if there is no such partition or its log cannot be used."""
        state = self._image.partition(topic, index)
        if state is None or not self._is_usable(state.leader, topic, index) or self.doubts(state.leader):
            return NO_LEADER
        return state.leader

    def offline_replicas(self, topic: str, index: int, state: PartitionState) -> list[int]:
        """Return the replicas whose broker is not alive, or whose log directory has failed."""
        return [
            broker for broker in state.replicas if broker in state.offline or not self._is_usable(broker, topic, index)
        ]

    def _is_usable(self, broker_id: int, topic: str, index: int) -> bool:
        return broker_id in self._image.brokers and not self._is_offline(broker_id, topic, index)
