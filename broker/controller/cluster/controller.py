"""A broker's controller: a candidate for the office, and the controller of the cluster while it holds it.

Everything happens in one queue of events, one after another: elections, what watches tell, requests, and the answers of
brokers. An event is a decision (`model.effects`), whose effects the office (`office`) carries out.

When the session with ZooKeeper expires, the queue is emptied and the office is lost at once. The broker tries to be
elected again when it is registered in the new session (`registered`).

When a decision fails with an unexpected error, what this controller knows may be wrong. Then it resigns. The next
controller, which may be the same broker, reads everything anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from broker.controller.cluster.candidacy import elect, hand_over, resign
from broker.controller.cluster.channels import REQUEST_TIMEOUT_S, Channels, Connect
from broker.controller.cluster.events import brokers, elections, failover, isr, producer_ids, shutdown
from broker.controller.cluster.events.answers import decisions_for
from broker.controller.cluster.events.isr import AskedKey, WantedIsr
from broker.controller.cluster.events.watched import decision_for
from broker.controller.cluster.kraft import KraftMigrationError
from broker.controller.cluster.machine import reassignment
from broker.controller.cluster.model.context import ControllerContext, PartitionKey, Settings
from broker.controller.cluster.model.effects import Decide, Steps
from broker.controller.cluster.model.history import Change, Explanation, History, lines
from broker.controller.cluster.model.requests import ControlRequest
from broker.controller.cluster.office import Office
from broker.controller.cluster.queue import NOT_ACTIVE, EventQueue, Item
from broker.controller.cluster.session import (
    Connection,
    ControllerMovedError,
    SessionEndedError,
    Term,
    TermEndedError,
)
from broker.controller.cluster.stalls import LOOK_S, Stalls
from broker.controller.cluster.succession import Succession
from broker.controller.cluster.watching import Event, Subject, Watches
from broker.controller.decisions.elections import ElectionType
from broker.metadata.model import NO_CONTROLLER, BrokerRegistration
from broker.metadata.znodes import controller as controller_node
from broker.metadata.znodes.cluster import ProducerIdBlock
from broker.metadata.znodes.topics import Assignment, StateNode
from broker.runtime import Runtime
from broker.zookeeper.interface import SessionState, WatchEvent, ZooKeeper, ZooKeeperError
from kafkalog.protocol.errors import (
    ErrorCode,
    KafkaError,
    NotControllerError,
    UnknownServerError,
    UnknownTopicIdError,
)
from kafkalog.protocol.messages.update_metadata import UpdateMetadataRequest

logger = logging.getLogger(__name__)

T = TypeVar("T")
FIRST_BALANCE_S = 5.0
"""The time from an election to the first balancing of leaders."""
PAUSE_S = 1.0
"""The pause between a failure of the controller and its next attempt to be elected."""


@dataclass(frozen=True, slots=True)
class Balancing:
    """The automatic balancing of leaders."""

    enabled: bool = True
    """`auto.leader.rebalance.enable`."""
    interval_s: float = 300.0
    """`leader.imbalance.check.interval.seconds`."""


class ClusterController:
    """See the module. Used on the event loop's thread only.

    Args:
        settings: The configuration that decisions depend on.
        zookeeper: The session of this broker.
        connect: Makes links to brokers.
        runtime: Clock and chance.
        balancing: How leaders are balanced; as in Kafka's defaults unless given.
        request_timeout_s: How long to wait for the answer of a broker before a request is sent again.

    Attributes:
        settings: as given.
        controller_id: the controller that this broker knows of, or NO_CONTROLLER.
        history: why partitions changed, as far as this broker decided that as the controller, or was told.
    """

    def __init__(
        self,
        settings: Settings,
        zookeeper: ZooKeeper,
        connect: Connect,
        runtime: Runtime,
        balancing: Balancing | None = None,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self.settings = settings
        self.controller_id = NO_CONTROLLER
        self.history = History()
        self._zookeeper = zookeeper
        self._connect = connect
        self._runtime = runtime
        self._balancing = Balancing() if balancing is None else balancing
        self._request_timeout_s = request_timeout_s
        self._connection = Connection()
        self._office: Office | None = None
        self._queue = EventQueue()
        self._changed: dict[Event, dict[Any, None]] = {}
        """The brokers, topics and partitions that changed since their last event."""
        self._timer: asyncio.TimerHandle | None = None
        self._stalls = Stalls()
        self._look_timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_registered = False
        self._closing: set[asyncio.Task[None]] = set()
        """Connections to brokers that are being closed."""
        self._succession = Succession(
            settings.broker_id,
            zookeeper,
            connect,
            lambda: self.controller_id,
            lambda: self._is_registered and not self.is_active,
            request_timeout_s,
        )
        self._watching: asyncio.Task[None] | None = None

    # -- the office

    @property
    def is_active(self) -> bool:
        """Return whether this broker is the controller, as far as it knows."""
        return self._office is not None

    @property
    def context(self) -> ControllerContext | None:
        """The state of the cluster as the controller has it; None while it is not active. Do not change it."""
        return None if self._office is None else self._office.context

    @property
    def epoch(self) -> int:
        """The epoch of this controller, or 0 where it is not active."""
        return 0 if self._office is None else self._office.context.epoch

    def start(self) -> None:
        """Stand for election. The broker has been registered before."""
        self._zookeeper.listen(self._session_changed)
        self._is_registered = True
        self._queue.put_election()
        self._task = self._runtime.loop.create_task(self._run())
        self._watching = self._runtime.loop.create_task(self._succession.run())

    def registered(self) -> None:
        """Stand for election again: the broker is registered in a new session."""
        self._is_registered = True
        self._queue.put_election()

    async def stop(self) -> None:
        """Leave the office, answer all that wait, and let another broker be elected.

        The session, with which `/controller` would go, is closed once all logs are flushed.
        """
        self._is_registered = False
        self._connection.end()
        for task in (self._task, self._watching):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        office = self._office
        self._leave()
        # Only now no further request is queued.
        self._queue.clear()
        if office is not None:
            await hand_over(self._zookeeper, office.epoch_version)
        await asyncio.gather(*self._closing, return_exceptions=True)

    # -- requests of brokers and administrators

    async def alter_partition(
        self, broker_id: int, broker_epoch: int, wanted: Mapping[AskedKey, WantedIsr]
    ) -> dict[AskedKey, StateNode | KafkaError]:
        """Change the ISRs of partitions; see `events.isr.alter_partition`.

        The result for a topic id that is unknown is UnknownTopicIdError. A new controller reads the topics first.

        Raises:
            NotControllerError: This broker is not the controller.
            StaleBrokerEpochError: The leader is not registered, or was registered anew.
        """

        def decide(
            context: ControllerContext,
        ) -> Steps[tuple[dict[AskedKey, PartitionKey], dict[PartitionKey, StateNode | KafkaError]]]:
            # In the same turn as the change: a topic may be deleted, and created anew, in between.
            keys = isr.named(context, wanted)
            isrs = {key: wanted[asked] for asked, key in keys.items()}
            return keys, (yield from isr.alter_partition(context, broker_id, broker_epoch, isrs))

        keys, results = await self._ask("AlterPartition", decide)
        if self._office is not None and self._office.context.reassigning:
            self._queue.put("reassignments", lambda context: isr.complete_reassignments(context, results))
        return {asked: results[keys[asked]] if asked in keys else UnknownTopicIdError() for asked in wanted}

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> list[PartitionKey]:
        """Move the leaderships of a broker that stops; return the partitions that it still leads.

        Raises:
            NotControllerError: This broker is not the controller.
            BrokerNotAvailableError: The broker is not registered.
            StaleBrokerEpochError: It was registered anew.
        """
        return await self._ask(
            "ControlledShutdown", lambda context: shutdown.controlled_shutdown(context, broker_id, broker_epoch)
        )

    async def elect_leaders(
        self, keys: Collection[PartitionKey] | None, kind: ElectionType
    ) -> dict[PartitionKey, int | KafkaError]:
        """Elect leaders; return the new leader of each partition, or why there was no election.

        Args:
            keys: The partitions, or None for all.
            kind: The kind of election.

        Raises:
            NotControllerError: This broker is not the controller.
        """
        return await self._ask("ElectLeaders", lambda context: elections.elect_leaders(context, keys, kind))

    async def alter_reassignments(self, wanted: reassignment.Wanted) -> reassignment.Errors:
        """Begin, replace or cancel reassignments; return the error of each partition, or None.

        Raises:
            NotControllerError: This broker is not the controller.
        """

        def decide(context: ControllerContext) -> Steps[reassignment.Errors]:
            context.cause = "an administrator asked for a reassignment"
            return reassignment.by_api(context, wanted)

        return await self._ask("AlterPartitionReassignments", decide)

    async def list_reassignments(self, keys: Collection[PartitionKey] | None) -> dict[PartitionKey, Assignment]:
        """Return the reassignments in progress: of some partitions, or of all.

        Raises:
            NotControllerError: This broker is not the controller.
        """

        def decide(context: ControllerContext) -> Steps[dict[PartitionKey, Assignment]]:
            yield from ()
            return reassignment.listed(context, keys)

        return await self._ask("ListPartitionReassignments", decide)

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> ProducerIdBlock:
        """Give a broker a block of producer ids.

        Raises:
            NotControllerError: This broker is not the controller.
            BrokerIdNotRegisteredError: The broker is not registered.
            StaleBrokerEpochError: It was registered anew.
            UnknownServerError: The block cannot be stored.
        """
        return await self._ask(
            "AllocateProducerIds",
            lambda context: producer_ids.allocate_producer_ids(context, broker_id, broker_epoch),
        )

    def explain(self, key: PartitionKey) -> Explanation | None:
        """Return why a partition changed, as far as this controller knows; None where it is not active."""
        if self._office is None:
            return None
        return self.history.explain(*key, self._office.context.epoch)

    def learn(self, message: UpdateMetadataRequest) -> None:
        """Note why partitions changed, as the controller tells all brokers: this one may be the next controller."""
        if message.controller_id != self.settings.broker_id:
            self.history.learn(self._runtime.now_ms(), message.controller_epoch, message.changes)

    def unclean_election_enabled(self, names: Collection[str] | None) -> None:
        """Try elections again, because unclean ones are allowed now: for topics, or for all (None)."""
        self._queue.put("unclean", lambda context: elections.unclean_enabled(context, names))

    # -- the queue

    async def _ask(self, name: str, decide: Callable[[ControllerContext], Steps[T]]) -> T:
        if self._office is None:
            raise NotControllerError(NOT_ACTIVE)
        answer: asyncio.Future[Any] = self._runtime.loop.create_future()
        self._queue.put(name, decide, answer)
        return cast(T, await answer)

    async def _run(self) -> None:
        while True:
            item = await self._queue.take()
            if item.decide is None:
                await self._stand_for_election()
            else:
                await self._process(item, item.decide)

    async def _process(self, item: Item, decide: Decide) -> None:
        try:
            item.settle(await self._decided(item.name, decide))
        except KafkaError as error:
            if item.answer is None:
                logger.debug("%s: %s", item.name, error)
            item.fail(error)
        finally:
            # The controller stops while this is under way.
            item.fail(NotControllerError(NOT_ACTIVE))

    async def _decided(self, name: str, decide: Callable[[ControllerContext], Steps[T]]) -> T:
        """Carry out a decision; return its result."""
        office = self._office
        if office is None:
            raise NotControllerError(NOT_ACTIVE)
        context = office.context
        context.cause = name
        try:
            return await office.carry_out(decide(context))
        except KafkaError:
            raise
        except ControllerMovedError:
            logger.warning("another controller was elected while %s was carried out", name)
            self._leave()
            self._queue.put_election()
            raise NotControllerError(NOT_ACTIVE) from None
        except SessionEndedError:
            raise NotControllerError(NOT_ACTIVE) from None
        except Exception as error:
            # Whatever it is: what this controller knows may be wrong from here on.
            logger.exception("%s has failed; this controller resigns", name)
            await self._resign(office)
            raise UnknownServerError(repr(error)) from error
        finally:
            self._note(context.changes)
            context.changes.clear()
            context.causes = {}

    def _note(self, changes: list[Change]) -> None:
        """Keep changes with their causes, and write the first ones to the broker's log."""
        self.history.add(self._runtime.now_ms(), changes)
        for line in lines(changes, "changes of partitions"):
            logger.info("%s", line)

    # -- elections of the controller

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self._is_registered = False
            self._queue.clear()
            self._leave()
            self.controller_id = NO_CONTROLLER
        if self._office is not None:
            self._office.watches.lost()
        self._connection.changed(state)
        if state is SessionState.CONNECTED and self._is_registered:
            # Nothing is known of what changed meanwhile.
            self._queue.put_election()
            if self._office is not None:
                self._office.watches.all_changed()

    def _office_changed(self, event: WatchEvent) -> None:
        if self._is_registered:
            self._queue.put_election()

    async def _stand_for_election(self) -> None:
        if not self._is_registered:
            return
        data = controller_node.encode(self.settings.broker_id, self._runtime.now_ms())
        try:
            won = await elect(self._zookeeper, self._connection, data, self._office_changed, is_active=self.is_active)
        except TermEndedError:
            return
        except KraftMigrationError as error:
            # There is another election when the node changes.
            logger.error("there is no election: %s", error)
            self._leave()
            self.controller_id = NO_CONTROLLER
            return
        except Exception:
            # A node that cannot be read, for example. Nothing is lost by trying again.
            logger.exception("the controller cannot be elected")
            self._leave()
            self._runtime.loop.call_later(PAUSE_S, self._queue.put_election)
            return
        if won is None:
            return
        self._leave()
        if isinstance(won, int):
            if won == NO_CONTROLLER:
                self._queue.put_election()
            elif won != self.controller_id:
                logger.info("the controller is broker %d", won)
            self.controller_id = won
            return
        await self._take_over(*won)

    async def _take_over(self, epoch: int, epoch_version: int) -> None:
        self.controller_id = self.settings.broker_id
        self._office = Office(
            ControllerContext(self.settings, epoch),
            epoch_version,
            Term(self._zookeeper, self._connection, epoch_version),
            Watches(self._watched),
            Channels(self._connect, self._answered, self._found_dead, self._request_timeout_s),
            self._connect,
        )
        self.history.begin(self._runtime.now_ms(), epoch)
        logger.info("this broker, %d, is the controller of epoch %d", self.settings.broker_id, epoch)
        with suppress(KafkaError):
            await self._decided("failover", lambda context: failover.take_over(context, self._runtime.random))
        if self.is_active:
            self._stalls = Stalls()
            self._look_timer = self._runtime.loop.call_later(LOOK_S, self._look_at_reassignments)
        if self.is_active and self._balancing.enabled:
            self._timer = self._runtime.loop.call_later(FIRST_BALANCE_S, self._balance)

    def _leave(self) -> None:
        """Forget everything that belongs to the office."""
        office, self._office = self._office, None
        for timer in (self._timer, self._look_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._look_timer = None
        if office is not None:
            logger.info("this broker, %d, is not the controller any more", self.settings.broker_id)
            office.end()
            task = self._runtime.loop.create_task(office.channels.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        self._changed.clear()
        if self.controller_id == self.settings.broker_id:
            self.controller_id = NO_CONTROLLER

    async def _resign(self, office: Office) -> None:
        """Leave the office, and let another broker, or this one, be elected."""
        self._leave()
        try:
            await resign(self._zookeeper, self._connection, office.epoch_version)
        except TermEndedError:
            return
        except ZooKeeperError:
            # The node of the office is still there. It is deleted before the next election.
            logger.exception("the node of the controller cannot be deleted")
        self._runtime.loop.call_later(PAUSE_S, self._queue.put_election)

    def _balance(self) -> None:
        self._queue.put_once("balance", elections.balance)
        self._timer = self._runtime.loop.call_later(self._balancing.interval_s, self._balance)

    def _look_at_reassignments(self) -> None:
        """Report reassignments that have waited for too long."""
        if self._office is None:
            return
        now_ms = self._runtime.now_ms()
        told = self._stalls.look(self._office.context, now_ms)
        self.history.add(now_ms, told)
        for line in lines(told, "reassignments that wait"):
            logger.warning("%s", line)
        self._look_timer = self._runtime.loop.call_later(LOOK_S, self._look_at_reassignments)

    # -- what comes from outside

    def _watched(self, event: Event, subject: Subject) -> None:
        self._changed.setdefault(event, {})[subject] = None
        decide = decision_for(event, lambda: self._taken(event), self._runtime.random)
        self._queue.put_once(event.name.lower(), decide)

    def _taken(self, event: Event) -> list[Any]:
        return list(self._changed.pop(event, ()))

    def _answered(self, broker: BrokerRegistration, request: ControlRequest, response: Any) -> None:
        """Take the answer of a broker to a request."""
        if self._office is None:
            return
        if response.error_code != ErrorCode.NONE:
            logger.warning(
                "broker %d answers %s to %s",
                broker.broker_id,
                ErrorCode.of(response.error_code).name,
                type(request.message).__name__,
            )
        for name, decide in decisions_for(self._office.context, broker.broker_id, request, response):
            self._queue.put(name, decide)

    def _found_dead(self, broker: BrokerRegistration) -> None:
        """Take note that a broker's process seems to have died."""
        if broker.watches_itself and broker.broker_id != self.settings.broker_id:
            self._queue.put_once(f"death of {broker.broker_id}", lambda context: brokers.process_died(context, broker))
