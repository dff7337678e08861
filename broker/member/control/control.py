"""Carries out what the controller sends: roles, replicas to stop, and the cluster's metadata, as in Kafka's KafkaApis.

A request for an earlier life of this broker, or from a controller that was replaced, is refused as a whole. A request
for a later life waits until this broker knows that it is registered: the controller may see the registration first
(KAFKA-9839). If it were refused, the controller would not send it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from broker.member.control.orders import roles, roles_answered, stops, stops_answered
from broker.member.control.update import merged
from broker.metadata.model import ClusterState, TopicState
from broker.metadata.operations import Operation
from broker.replica.hosting.applier import ReplicaApplier
from broker.replica.manager import ReplicaManager
from kafkalog.protocol.errors import InvalidRequestError, StaleBrokerEpochError
from kafkalog.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkalog.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkalog.protocol.messages.update_metadata import UpdateMetadataRequest

logger = logging.getLogger(__name__)

ANY_EPOCH = -1
"""The broker epoch of a request that is for whatever life of this broker."""
NOT_YET = -2
"""No epoch of a broker."""
REGISTERED_WITHIN_S = 5.0
"""The longest time that a request of the controller waits for this broker to learn of its registration."""
Merge = Callable[[ClusterState], tuple[ClusterState, Sequence[Operation]]]


class PublishedStore(Protocol):
    """The interface of the metadata store to a member."""

    @property
    def state(self) -> ClusterState:
        """The newest state that this broker knows."""

    def publish(self, change: Merge) -> None:
        """Merge what the controller has told into the state, and tell the listeners."""

    def check_topic(self, topic: TopicState) -> None:
        """Refuse a new topic that the store would not take."""

    def forget_topics(self, gone: Collection[TopicState]) -> None:
        """Take topics that do not exist any more out of the state, and tell the listeners."""

    async def missing_topics(self, names: Iterable[str]) -> set[str]:
        """Return those of the topics that ZooKeeper does not have."""

    async def read_topic_configs(self, names: Iterable[str]) -> None:
        """Read the configurations of topics, before their logs are created here."""


class Control:
    """Carries out the controller's requests. Used on the event loop's thread only.

    Args:
        store: the cluster's metadata.
        replicas: the partitions of this broker.
        applier: gives them their roles.
        broker_epoch: returns the epoch of this broker.
        on_brokers: called when the live brokers have changed.
    """

    def __init__(
        self,
        store: PublishedStore,
        replicas: ReplicaManager,
        applier: ReplicaApplier,
        broker_epoch: Callable[[], int],
        on_brokers: Callable[[], None],
    ) -> None:
        self._store = store
        self._replicas = replicas
        self._applier = applier
        self._broker_epoch = broker_epoch
        self._on_brokers = on_brokers
        self._roles_in = self._metadata_in = NOT_YET
        """The lives of this broker, by their epochs, in which the controller told it roles and partitions last."""
        self._latest = ANY_EPOCH
        """The epoch of the latest life of which this broker knows."""
        self._begun = asyncio.Event()

    def registered(self) -> None:
        """Note that a life of this broker has begun."""
        self._latest = self._broker_epoch()
        self._begun.set()
        self._begun.clear()

    def is_early(self, broker_epoch: int) -> bool:
        """Return whether a request is for a life that begins, so that `until_registered` has to come first."""
        return self._broker_epoch() < 0 and broker_epoch > self._latest

    async def until_registered(self, broker_epoch: int) -> None:
        """Wait until this broker knows that it is registered, where a request for `broker_epoch` is early."""
        if self.is_early(broker_epoch):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REGISTERED_WITHIN_S):
                    await self._begun.wait()

    @property
    def has_metadata(self) -> bool:
        """Return whether the controller has told this broker of partitions since it was registered."""
        return self._metadata_in == self._broker_epoch()

    @property
    def has_roles(self) -> bool:
        """Return whether the controller has told this broker its roles since it was registered."""
        return self._roles_in == self._broker_epoch()

    async def leader_and_isr(self, message: LeaderAndIsrRequest, version: int) -> LeaderAndIsrResponse:
        """Take the roles of a request.

        Raises:
            StaleBrokerEpochError, StaleControllerEpochError, InvalidRequestError: it is refused as a whole.
        """
        await self.until_registered(message.broker_epoch)
        self._check(message)
        check = self._same_life()
        wanted = roles(message, version)
        new = {each.topic for each in wanted if each.is_new or self._replicas.get(*each.key) is None}
        if new:
            await self._read_configs(new)
        results = await self._applier.apply_leader_and_isr(message.controller_epoch, wanted, check)
        self._roles_in = self._broker_epoch()
        return roles_answered(wanted, results, version)

    async def stop_replica(self, message: StopReplicaRequest, version: int) -> StopReplicaResponse:
        """Stop the replicas of a request; see `leader_and_isr` for the errors."""
        await self.until_registered(message.broker_epoch)
        self._check(message)
        wanted = stops(message, version)
        return stops_answered(await self._applier.stop_replica(message.controller_epoch, wanted, self._same_life()))

    def update_metadata(self, message: UpdateMetadataRequest, version: int) -> None:
        """Take over what a request tells of the cluster; see `leader_and_isr` for the errors.

        It does not wait: where the request `is_early`, the caller does so before.
        """
        self._check(message)
        self._applier.note_controller(message.controller_epoch)
        before = self._store.state.brokers
        self._store.publish(lambda state: merged(state, message, version))
        if message.topic_states or message.ungrouped_partition_states:
            self._metadata_in = self._broker_epoch()
        if self._store.state.brokers != before:
            self._on_brokers()

    def _check(self, message: LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest) -> None:
        present = self._broker_epoch()
        if present < 0:
            # It has given up its roles; the controller sends new ones after the next registration.
            raise StaleBrokerEpochError("this broker is not registered at present")
        if message.broker_epoch != ANY_EPOCH and message.broker_epoch < present:
            raise StaleBrokerEpochError(
                f"the request is for broker epoch {message.broker_epoch}, which is older than {present}"
            )
        if message.is_kraft_controller:
            raise InvalidRequestError("this broker does not take part in a migration to KRaft")

    def _same_life(self) -> Callable[[], None]:
        """Return a check that refuses to go on with a request once the present broker epoch has ended."""
        present = self._broker_epoch()

        def check() -> None:
            if self._broker_epoch() != present:
                raise StaleBrokerEpochError(f"broker epoch {present} has ended while the request was carried out")

        return check

    async def _read_configs(self, topics: Iterable[str]) -> None:
        try:
            await self._store.read_topic_configs(topics)
        except OSError as error:
            # The store reads them again. Until then the broker's defaults are in force.
            logger.warning("The configurations of new topics cannot be read: %s", error)
