"""Puts committed configurations and quotas in force on this broker, whichever broker committed them.

Kafka's counterparts are the DynamicConfigPublisher and the DynamicClientQuotaPublisher. A request that commits a change
does not apply it. It only waits until the change is in force.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from broker.config.definition import ConfigError
from broker.config.server import BrokerConfig
from broker.controller.quotas import QuotaController
from broker.metadata.cache import MetadataCache
from broker.metadata.model import ClusterState
from broker.metadata.operations import ConfigResource, Operation, SetClientQuota, SetConfig
from broker.replica.manager import ReplicaManager

logger = logging.getLogger(__name__)

TOPICS_A_TURN = 100
"""The number of topics whose configurations are put in force before other requests get their turn."""


class ConfigPublisher:
    """Puts committed changes in force. Used on the event loop's thread only.

    Args:
        cache: the cluster's metadata. Its store notifies it of a change before this object.
        replicas: the partitions that configurations are for.
        effective: returns the configuration of this broker in a state of the cluster.
        quotas: puts quotas in force.
    """

    def __init__(
        self,
        cache: MetadataCache,
        replicas: ReplicaManager,
        effective: Callable[[ClusterState], BrokerConfig],
        quotas: QuotaController,
    ) -> None:
        self._cache = cache
        self._replicas = replicas
        self._effective = effective
        self._quotas = quotas
        self._loop = replicas.runtime.loop
        self._due: dict[str, None] = {}
        """The topics whose configurations are not in force yet, in order."""
        self._look_ups: set[asyncio.Task[None]] = set()

    def publish(self, state: ClusterState, operations: Sequence[Operation]) -> None:
        """Put what `operations` changed in force: a listener of a metadata store."""
        changed = [each for each in operations if isinstance(each, SetConfig)]
        if any(each.resource is ConfigResource.BROKER for each in changed):
            self._publish_broker(state)
        topics = [each.name for each in changed if each.resource is ConfigResource.TOPIC]
        if topics:
            self._publish_topics(topics)
        quotas = [each.entity for each in operations if isinstance(each, SetClientQuota)]
        if quotas:
            self._quotas.install()
            hosts = self._quotas.unknown_hosts(quotas)
            if hosts:
                task = self._loop.create_task(self._quotas.look_up(hosts))
                self._look_ups.add(task)
                task.add_done_callback(self._look_ups.discard)

    async def settled(self) -> None:
        """Wait until the configurations that were committed so far are in force."""
        while self._due:
            await asyncio.sleep(0)

    async def stop(self) -> None:
        """Give up look-ups of hosts that are not finished."""
        looking = list(self._look_ups)
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)

    def _publish_broker(self, state: ClusterState) -> None:
        try:
            config = self._effective(state)
        except ConfigError as error:
            logger.error(
                "The broker's dynamic configuration is not in force, but the one before: %s. Correct it with "
                "kafka-configs --alter --entity-type brokers",
                error,
            )
            return
        self._replicas.reconfigure_broker(config)
        self._publish_topics(self._cache.image.topics)

    def _publish_topics(self, topics: Iterable[str]) -> None:
        is_idle = not self._due
        self._due.update(dict.fromkeys(topics))
        if is_idle:
            self._take_turn()

    def _take_turn(self) -> None:
        for name in list(islice(self._due, TOPICS_A_TURN)):
            del self._due[name]
            # The newest configuration, because the topic may have been changed or deleted again meanwhile.
            topic = self._cache.topic(name)
            if topic is None:
                continue
            try:
                self._replicas.reconfigure(topic)
            except Exception:
                # The other topics must be published all the same: requests wait for that.
                logger.exception("the configuration of topic %s could not be put in force", name)
        if self._due:
            self._loop.call_soon(self._take_turn)
