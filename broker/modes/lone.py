"""A broker that is a cluster of its own: its registry is a file, and it is its own controller.

It takes over the topics that it finds in log directories without a registry, such as those that Apache Kafka wrote, and
finishes what a crash has cut short.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from broker.config.listeners import Endpoint
from broker.config.server import BrokerConfig
from broker.controller.decisions.adoption import FoundLog, adopt
from broker.controller.decisions.leadership import new_epochs
from broker.controller.decisions.requests import roles_of
from broker.coordinator.transaction.partition_transactions import largest_producer_id_in
from broker.log.alter_dirs.startup import read_topic_id
from broker.log.log_manager import LogManager
from broker.metadata.cache import MetadataCache
from broker.metadata.local import FILE_NAME, JOINED_NAME, LocalStore
from broker.metadata.model import BrokerRegistration, ClusterState, MetadataError, PartitionCount
from broker.metadata.operations import ElectController, ForgetDeleted, Operation, RegisterBroker, UnregisterBroker
from broker.modes.broker_id import NO_ID, known_broker_id
from broker.replica.hosting.applier import ReplicaApplier
from broker.replica.manager import ReplicaManager
from broker.runtime import Runtime
from kafkalog.storage import names
from kafkalog.storage.topics import TRANSACTION_STATE

logger = logging.getLogger(__name__)


class LoneMode:
    """The mode of a lone broker; `Mode` describes the methods.

    Args:
        config: the configuration of the broker's file.
        runtime: what the broker is given from outside.
        logs: its logs.
    """

    def __init__(self, config: BrokerConfig, runtime: Runtime, logs: LogManager) -> None:
        self.config = config
        self.logs = logs
        self.runtime = runtime
        self._run = runtime.workers.run
        self.broker_id = NO_ID
        self.store = LocalStore(
            *(directory.path for directory in logs.online_dirs),
            workers=runtime.workers,
            ops=runtime.files,
            on_failure=logs.fail_directory,
            chance=runtime.random,
        )
        self._is_fresh = False

    async def open(self) -> ClusterState:
        """See `Mode.open`."""
        self._is_fresh = not self.store.exists
        stored_cluster_id = self.logs.stored_cluster_id()
        joined = [str(each.path) for each in self.logs.online_dirs if (each.path / JOINED_NAME).exists()]
        if self._is_fresh and joined:
            raise MetadataError(
                f"{JOINED_NAME} is in {', '.join(joined)}: this broker is a member of a cluster. Set "
                "zookeeper.connect, or make it a cluster of its own again with kafkalog server leave"
            )
        if self._is_fresh and stored_cluster_id is not None and self.logs.offline_dirs:
            raise MetadataError(
                f"{FILE_NAME} is in none of the log directories that can be used, and "
                f"{', '.join(str(directory.path) for directory in self.logs.offline_dirs)} cannot: make that usable "
                f"again, or put a copy of {FILE_NAME} into another log directory"
            )
        state = self.store.load(stored_cluster_id)
        self.broker_id = known_broker_id(self.config["broker.id"], self.logs.stored_broker_id()) or 0
        self.logs.claim(state.cluster_id, self.broker_id)
        return state

    async def loaded(self) -> ClusterState:
        """Register found topics, elect this broker as the controller, and begin new leader epochs where needed."""
        if self._is_fresh:
            await self._adopt()
        elif self.store.behind:
            self.store.write(self.store.state)
        # A lone broker is its own controller, and elects itself at each start.
        await self.store.commit(lambda state: [ElectController(self.broker_id, state.controller_epoch + 1)])
        return await self._raise_epochs()

    def topic_config(self, name: str) -> Mapping[str, str]:
        """See `Mode.topic_config`."""
        topic = self.store.state.topics.get(name)
        return {} if topic is None else topic.config

    def join(self, replicas: ReplicaManager, cache: MetadataCache, applier: ReplicaApplier) -> None:
        """Return None: there is no cluster to join."""

    @property
    def controller(self) -> None:
        """See `Mode.controller`: a lone broker decides without one."""
        return None

    async def host(self, applier: ReplicaApplier) -> None:
        """Remove logs of topics that are gone; give the others the roles that the registry has for them."""
        state = self.store.state
        await self._remove_strays(state)
        await applier.apply_leader_and_isr(state.controller_epoch, roles_of(state, self.broker_id))

    async def register(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Register this broker as alive; remove the other brokers that a copied registry may name."""

        def decide(state: ClusterState) -> list[Operation]:
            epoch = max((broker.epoch for broker in state.brokers.values()), default=0) + 1
            gone = [UnregisterBroker(broker.broker_id, broker.epoch) for broker in state.brokers.values()]
            return [
                *gone,
                RegisterBroker(BrokerRegistration(self.broker_id, endpoints, self.config["broker.rack"], epoch)),
            ]

        await self.store.commit(decide)

    async def partition_counts(self, topics: Iterable[str]) -> dict[str, PartitionCount]:
        """Return no counts, because the registry here is complete."""
        return {}

    @property
    def registration(self) -> BrokerRegistration:
        """See `Mode.registration`."""
        return self.store.state.brokers[self.broker_id]

    def drop(self, path: Path) -> None:
        """Stop writing the registry into a log directory that has failed."""
        self.store.drop(path)

    def directory_failed(self) -> None:
        """Do nothing: there is nobody to tell."""

    async def leave(self) -> None:
        """Do nothing: nobody takes over."""

    async def stop(self) -> None:
        """Do nothing: `join` has made nothing."""

    async def close(self) -> None:
        """Do nothing: the registry is stored."""

    # -- inside

    async def _adopt(self) -> ClusterState:
        """Register the topics of a directory that has logs but no registry, such as one that Apache Kafka wrote."""
        found = [
            FoundLog(log.topic, log.partition, log.topic_id, log.latest_epoch, log.cleaned_offset is not None)
            for log in self.logs
        ]
        used = await self._run(self._largest_producer_id)
        chance = self.runtime.random
        state = await self.store.commit(lambda state: adopt(state, self.broker_id, found, used, chance))
        # Stored even when empty: from now on, a partition's directory that the registry does not name is a stray.
        if not self.store.exists:
            await self._run(self.store.write, state)
        for log in self.logs:
            if log.topic_id is None:
                log.assign_topic_id(state.topics[log.topic].topic_id)
        if state.topics:
            logger.warning(
                "Registered %d topics found in the log directories, whose configurations are not known: those that "
                "were compacted before are compacted, of the others nothing is removed until retention.ms and "
                "retention.bytes are set for them. They are %s",
                len(state.topics),
                ", ".join(sorted(state.topics)),
            )
        return self.store.state

    def _largest_producer_id(self) -> int:
        """Return the largest producer id in use, -1 for none.

        Besides those in the logs, this includes the ids of transactional producers that have written nothing yet.
        """
        used = [producer for log in self.logs for producer in log.producers.producers]
        piece_bytes = self.config["transaction.state.log.load.buffer.size"]
        states = (log for log in self.logs if log.topic == TRANSACTION_STATE)
        used += [largest_producer_id_in(log.partition, log, piece_bytes) for log in states]
        return max(used, default=-1)

    async def _raise_epochs(self) -> ClusterState:
        """Begin a new leader epoch where records may have been lost.

        The epoch begins at the current log end. A consumer that had read further asks where its epoch ended (KIP-320),
        and so detects the loss, instead of missing the new records at offsets that it has already passed.
        """
        recovered = self.logs.recovered
        try:
            return await self.store.commit(lambda state: new_epochs(state, recovered))
        except OSError as error:
            # For example, the disk is full. It is better to serve the existing records than not to start.
            logger.warning(
                "After an unclean stop the leader epochs could not be raised: %s. Consumers that have read records "
                "which are lost are not told so",
                error,
            )
            return self.store.state

    async def _remove_strays(self, state: ClusterState) -> None:
        """Finish deletions that a crash cut short; set aside logs that the registry does not name."""
        for log in list(self.logs):
            topic = state.topics.get(log.topic)
            if log.topic_id is not None and log.topic_id in state.deleting:
                self.logs.delete(log.topic, log.partition)
            elif (
                topic is None
                or (log.topic_id is not None and log.topic_id != topic.topic_id)
                or log.partition >= len(topic.partitions)
            ):
                self.logs.set_aside(log.topic, log.partition)
        self._remove_stray_copies(state)
        if state.deleting and not self.logs.offline_dirs:
            await self.store.commit(lambda state: [ForgetDeleted(state.deleting)])

    def _remove_stray_copies(self, state: ClusterState) -> None:
        """Remove the unfinished copies, made by moves, of logs that no longer exist."""
        futures = self.logs.futures
        for key, path in list(futures.found.items()):
            log, topic_id = self.logs.get(*key), read_topic_id(path)
            if topic_id in state.deleting or (log is not None and log.topic_id != topic_id):
                futures.cancel(key)
            elif log is None and not self.logs.offline_dirs:
                logger.warning("%s is the copy of a log that is not there; it is kept as a stray", path)
                futures.discard(key, futures.found.pop(key), names.STRAY_DIR)
