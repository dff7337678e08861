"""All fetchers of a broker: which partition is fetched over which connection.

A leader has `num.replica.fetchers` connections, and a partition is fetched over the one that its name decides, as in
Kafka. A leader that is not alive, as far as this broker knows, has none: its partitions wait until the controller tells
of the broker. In Kafka they wait for the controller's next word on the partition.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from broker.cluster_links import Connect, NoListenerError
from broker.config.listeners import Endpoint
from broker.config.protocol_version import Feature
from broker.config.server import BrokerConfig
from broker.metadata.model import NO_LEADER, BrokerRegistration
from broker.replica.fetching.fetcher import Fetcher, FetchSettings
from broker.replica.fetching.following import Following
from broker.replica.manager import ReplicaManager
from broker.replica.partition import Partition
from kafkalog.storage.java_hash import java_hash, positive

logger = logging.getLogger(__name__)

PartitionKey = tuple[str, int]
FetcherKey = tuple[int, int]
"""The leader's id, and the number of the connection."""


def fetcher_number(topic: str, index: int, count: int) -> int:
    """Return which of a leader's connections a partition is fetched over."""
    return positive(31 * java_hash(topic) + index) % count


class FollowerFetchers:
    """The fetchers of this broker. Used on the event loop's thread only.

    Args:
        replicas: the partitions of this broker; it tells of changes of their roles.
        connect: makes links to leaders.
        brokers: returns the live brokers by id.
        broker_epoch: returns the epoch of this broker.
    """

    def __init__(
        self,
        replicas: ReplicaManager,
        connect: Connect,
        brokers: Callable[[], Mapping[int, BrokerRegistration]],
        broker_epoch: Callable[[], int],
    ) -> None:
        self._replicas = replicas
        self._connect = connect
        self._brokers = brokers
        self._broker_epoch = broker_epoch
        self._fetchers: dict[FetcherKey, Fetcher] = {}
        self._addresses: dict[FetcherKey, tuple[Endpoint, ...]] = {}
        self._placed: dict[PartitionKey, FetcherKey] = {}
        self._parked: dict[PartitionKey, Following] = {}
        """Partitions whose leader is not alive, as far as is known."""
        self._closing: set[asyncio.Task[None]] = set()
        self._settings: FetchSettings | None = None
        self._settings_of: BrokerConfig | None = None
        """The configuration that the settings are of; a change makes another one."""
        self._is_leaving = False
        self._is_stopped = False
        replicas.on_role_changed.append(self.role_changed)
        replicas.on_reconfigured.append(self.resize)

    @property
    def most_behind(self) -> int:
        """The largest number of records that a followed partition lacks. Any thread may call this."""
        lags = [each.lag or 0 for fetcher in list(self._fetchers.values()) for each in list(fetcher.follows())]
        return max(lags, default=0)

    @property
    def troubled(self) -> int:
        """The number of partitions that should be fetched and are not at present. Any thread may call this."""
        found = [each for fetcher in list(self._fetchers.values()) for each in list(fetcher.follows())]
        return len(self._parked) + sum(bool(each.trouble) for each in found)

    @property
    def connections(self) -> int:
        """The number of connections to leaders. Any thread may call this."""
        return len(self._fetchers)

    def doubted(self) -> set[int]:
        """Return the leaders whose processes may be dead; see `Fetcher.is_leader_doubtful`."""
        return {key[0] for key, fetcher in self._fetchers.items() if fetcher.is_leader_doubtful}

    def settings(self) -> FetchSettings:
        config = self._replicas.config
        # Each fetcher asks several times for each request.
        if self._settings is None or config is not self._settings_of:
            self._settings_of = config
            self._settings = FetchSettings(
                version=config.protocol_version,
                max_wait_ms=config["replica.fetch.wait.max.ms"],
                min_bytes=config["replica.fetch.min.bytes"],
                max_bytes=config["replica.fetch.response.max.bytes"],
                partition_max_bytes=config["replica.fetch.max.bytes"],
                backoff=config["replica.fetch.backoff.ms"] / 1000,
            )
        return self._settings

    def role_changed(self, partition: Partition) -> None:
        """Begin to follow a partition's leader, or end it: a listener of `ReplicaManager.on_role_changed`."""
        present = self._following(partition.key)
        is_followed = (
            not self._is_stopped
            and self._replicas.is_online(*partition.key)
            and not partition.is_leader
            and partition.leader != NO_LEADER
        )
        if is_followed and present is not None and present.is_current and present.partition is partition:
            return
        self._remove(partition.key)
        if is_followed and not self._is_leaving:
            on_fetch = self._replicas.config.protocol_version.has(Feature.TRUNCATION_ON_FETCH)
            self._place(Following.begin(partition, truncates_on_fetch=on_fetch))

    def begin_leaving(self) -> None:
        """Follow no other leaders from now on, because this broker is about to stop, as Kafka's `ReplicaManager`.

        A leader counts a follower that has caught up with it as soon to be in sync. Its high watermark would wait for
        this broker, which fetches no more in a moment, until the time-outs of producers.
        """
        self._is_leaving = True

    def brokers_changed(self) -> None:
        """Look again at which leaders are alive and where: call it when the live brokers may have changed."""
        for key, endpoints in list(self._addresses.items()):
            broker = self._brokers().get(key[0])
            if broker is None or broker.endpoints != endpoints:
                self._move(key)
        parked, self._parked = self._parked, {}
        for following in parked.values():
            if following.is_current:
                self._place(following)

    def resize(self) -> None:
        """Fetch over as many connections as `num.replica.fetchers` says now: call it when that may have changed."""
        count = self._replicas.config["num.replica.fetchers"]
        for key, (leader, number) in list(self._placed.items()):
            if fetcher_number(*key, count) == number:
                continue
            following = self._fetchers[leader, number].get(key)
            self._remove(key)
            # What is known of it stays; an answer that is under way to the former connection is not used.
            if following is not None and following.is_current:
                self._place(following)

    async def close(self) -> None:
        """Stop following."""
        self._is_stopped = True
        for key in list(self._fetchers):
            self._end(key)
        self._parked.clear()
        await asyncio.gather(*self._closing)

    # Inside

    def _following(self, key: PartitionKey) -> Following | None:
        if key in self._parked:
            return self._parked[key]
        placed = self._placed.get(key)
        return None if placed is None else self._fetchers[placed].get(key)

    def _place(self, following: Following) -> None:
        partition = following.partition
        number = fetcher_number(*partition.key, self._replicas.config["num.replica.fetchers"])
        key = partition.leader, number
        fetcher = self._fetchers.get(key) or self._begin(key)
        if fetcher is None:
            self._parked[partition.key] = following
            return
        self._placed[partition.key] = key
        fetcher.add(following)

    def _begin(self, key: FetcherKey) -> Fetcher | None:
        leader, number = key
        broker = self._brokers().get(leader)
        if broker is None:
            return None
        try:
            link = self._connect(broker, f"fetcher-{number}")
        except NoListenerError as error:
            logger.error("nothing is fetched from broker %d: %s", leader, error)
            return None
        self._addresses[key] = broker.endpoints
        fetcher = Fetcher(leader, link, self._replicas, self.settings, self._broker_epoch)
        self._fetchers[key] = fetcher
        return fetcher

    def _remove(self, key: PartitionKey) -> None:
        self._parked.pop(key, None)
        placed = self._placed.pop(key, None)
        if placed is None:
            return
        fetcher = self._fetchers[placed]
        fetcher.remove(key)
        if not len(fetcher):
            # The next partition of the same request may need it again.
            self._replicas.runtime.loop.call_soon(self._end_if_idle, placed)

    def _end_if_idle(self, key: FetcherKey) -> None:
        fetcher = self._fetchers.get(key)
        if fetcher is not None and not len(fetcher):
            self._end(key)

    def _move(self, key: FetcherKey) -> None:
        """End a fetcher whose leader is gone or has another address; its partitions wait for a new one."""
        followed = list(self._fetchers[key].follows())
        self._end(key)
        for following in followed:
            self._parked[following.partition.key] = following

    def _end(self, key: FetcherKey) -> None:
        fetcher = self._fetchers.pop(key)
        del self._addresses[key]
        for followed in list(fetcher.follows()):
            self._placed.pop(followed.partition.key, None)
        task = self._replicas.runtime.loop.create_task(fetcher.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
