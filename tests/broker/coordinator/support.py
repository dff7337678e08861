"""The parts of a broker that coordinators use, assembled in this process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from broker.config.server import BrokerConfig
from broker.controller.channel import LoneChannel
from broker.controller.topics import lone_topics
from broker.coordinator.state_log import StateBatch, StateLog, StateRecord
from broker.coordinator.state_topic import consumer_offsets_topic
from broker.log.log_manager import LogManager
from broker.metadata.cache import MetadataCache
from broker.metadata.local import LocalStore
from broker.metadata.model import BrokerRegistration, PartitionState
from broker.metadata.operations import RegisterBroker
from broker.net.sockets.network import LoopNetwork
from broker.replica.hosting.applier import ReplicaApplier
from broker.replica.manager import ReplicaManager
from broker.replica.partition import Partition
from broker.runtime import Runtime
from broker.system.workers import ThreadWorkers


class Stored:
    """A registry, logs and partitions in `directory`. Settings have underscores for dots."""

    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        texts = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = BrokerConfig({"log.dirs": str(directory), "offsets.topic.num.partitions": "2", **texts})
        self.now = 1_700_000_000_000
        self.loop = asyncio.new_event_loop()
        self.logs = LogManager([directory], self.config.log_config({}), clock=lambda: self.now)
        self.runtime = Runtime(self.loop, ThreadWorkers(2), LoopNetwork(self.loop), lambda: self.now)
        self.store = LocalStore(directory, workers=self.runtime.workers)

    def __enter__(self) -> Self:
        state = self.store.load(None)
        self.logs.load_all({})
        self.replicas = ReplicaManager(self.runtime, 0, self.config, self.logs)
        self.cache = MetadataCache(state)
        self.store.subscribe(self.cache.update)
        self.run(self.store.commit(lambda state: [RegisterBroker(BrokerRegistration(0, ()))]))
        self.topics = lone_topics(
            self.store,
            self.cache,
            self.replicas,
            LoneChannel(0, ReplicaApplier(self.replicas, self.cache.topic_config)),
        )
        for topic in state.topics.values():
            config = self.replicas.topic_config(topic.config)
            for index, partition in enumerate(topic.partitions):
                self.replicas.host_partition(topic.name, index, topic.topic_id, partition, config, is_new=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close once; the logs are as after a clean stop."""
        if not self.loop.is_closed():
            self.runtime.workers.close(wait=True)
            self.loop.close()
            self.logs.shutdown()

    def assign(self, topic: str, index: int, assigned: PartitionState) -> None:
        """Give a hosted partition another role, as the controller does."""
        config = self.replicas.topic_config({})
        self.replicas.host_partition(topic, index, None, assigned, config, is_new=False)

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def state_log(self) -> StateLog:
        """Return the log of `__consumer_offsets`."""
        return StateLog(
            lambda: consumer_offsets_topic(self.config, self.topics.replica_limit),
            replicas=self.replicas,
            topics=self.topics,
            now_ms=lambda: self.now,
        )

    def append(self, log: StateLog, index: int, records: list[StateRecord], **options: Any) -> int:
        """Append and wait; return the last offset."""

        async def work() -> int:
            return await log.acknowledged(log.write(index, records, **options))

        offset: int = self.run(work())
        return offset

    def read(self, log: StateLog, index: int = 0) -> list[list[StateBatch]]:
        """Return the pieces of a partition."""

        async def collect() -> list[list[StateBatch]]:
            return [piece async for piece in log.replay(index, list)]

        pieces: list[list[StateBatch]] = self.run(collect())
        return pieces


def refuse_appends(partition: Partition, refuse: bool = True) -> None:
    """Set whether acks=all finds too few in-sync replicas from now on."""
    replicas = (0, 9) if refuse else (0,)
    partition.min_insync = len(replicas)
    partition.become(PartitionState(replicas, (0,), 0, partition.leader_epoch))


def begin_epoch(partition: Partition) -> None:
    """Elect the leader again, after it has led no more."""
    state = PartitionState(partition.replicas, tuple(partition.isr), 0, partition.leader_epoch + 1)
    partition.stop()
    partition.become(state)


def raise_epoch(partition: Partition) -> None:
    """Raise the leader epoch of a partition that stays led, as when the controller takes a replica out of the ISR."""
    partition.become(PartitionState(partition.replicas, tuple(partition.isr), 0, partition.leader_epoch + 1))
