"""Puts committed configurations and quotas in force on this broker, whichever broker committed them.

Kafka's counterparts are the DynamicConfigPublisher and the DynamicClientQuotaPublisher. A request that commits a change
does not apply it. It only waits until the change is in force.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from broker.config.server import SERVER_CONFIG, BrokerConfig, dynamic_fault, is_static
from broker.config.stored_topic import MIN_INSYNC, REMOVAL_KEYS_OF
from broker.config.topic import TOPIC_CONFIG
from broker.controller.configs import ALL_BROKERS
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
        self._told: set[tuple[str, str, str, str]] = set()
        """The dynamic values that the log has named as not in force: broker, name, value, and what follows from it."""

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

    def tell_faults(self, state: ClusterState) -> None:
        """Log which dynamic values of this broker and of all brokers are not in force: each once, until it changes."""
        told = self._told
        self._told = set()
        config = self._effective(state)
        for broker in (ALL_BROKERS, str(self._replicas.broker_id)):
            for name, text in state.broker_config.get(broker, {}).items():
                fault = dynamic_fault(name, text)
                if fault is None:
                    continue
                then = "".join(f". {consequence}" for consequence in _consequences(name, broker, config))
                self._told.add((broker, name, text, then))
                if (broker, name, text, then) not in told:
                    level = logging.WARNING if is_static(name) else logging.ERROR
                    self._tell_fault(broker, name, fault, level, then)

    def _tell_fault(self, broker: str, name: str, fault: str, level: int, then: str) -> None:
        whose = f"broker {broker}" if broker else "all brokers"
        where = f" (/config/brokers/{broker or '<default>'} in ZooKeeper)" if self._replicas.config.is_member else ""
        entity = f"--entity-name {broker}" if broker else "--entity-default"
        logger.log(
            level,
            "The dynamic configuration %s of %s%s is not in force: %s. Correct or delete it with kafka-configs --alter "
            "--entity-type brokers %s%s",
            name,
            whose,
            where,
            fault,
            entity,
            then,
        )

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
        self.tell_faults(state)
        self._replicas.reconfigure_broker(self._effective(state))
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


def _consequences(name: str, broker: str, config: BrokerConfig) -> Iterator[str]:
    """Say what is in force while the value of a broker key cannot be read, and what is not removed."""
    value = config.dynamic.get(broker, {}).get(name)
    if value is not None:
        yield f"Until then what was read last is in force: {name}={SERVER_CONFIG[name].format(value)}"
    if name in config.lost:
        if name in TOPIC_CONFIG[MIN_INSYNC].synonyms:
            yield (
                f"Until then a produce with acks=all to topics that do not set {MIN_INSYNC} needs all replicas in the "
                "ISR"
            )
        if name in TOPIC_CONFIG["cleanup.policy"].synonyms:
            yield (
                "Until then records of clients need a key in topics that do not set cleanup.policy, as compaction "
                "requires it"
            )
    if name not in config.unread:
        return
    for policy, keys in {"": ("cleanup.policy",), **REMOVAL_KEYS_OF}.items():
        for key in keys:
            if name in TOPIC_CONFIG[key].synonyms:
                which = (
                    f"whose cleanup.policy has {policy} and that do not set {key}"
                    if policy
                    else f"that do not set {key}"
                )
                yield f"Until then no records are removed, by retention or by compaction, of topics {which}"
